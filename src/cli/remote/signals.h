/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cli/remote/signals - the number of a signal from "signal: killed", as the data plane says it. */

/* 0 if unknown. */
int signals_number(const char *status);
