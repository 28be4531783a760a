/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cli/doctor - private to the doctor's files: the two ways to print a diagnosis. */
#include "core/diagnosis.h"

#include <stdio.h>

/* One line of JSON. */
void doctor_print_json(const struct probe *p, const struct diagnosis *d, FILE *out);
/* For people; with colours if want_colour. */
void doctor_print_text(
	const struct probe *p, const struct diagnosis *d, bool want_colour, FILE *out);
