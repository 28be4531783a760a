/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/road_env - variables for programs in a box that has a road out.
 *
 * Nothing needs them to get out: every connection is led the same way. Programs that read them say
 * names instead of addresses, and trust the certificates of who looks into their connections. Pure.
 */
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

/* Where a box finds ca.pem, bundle.pem (the system's roots, and that one) and cacerts.jks. */
#define ROAD_CA_DIR "/run/bawn-ca"

/* Append K=V entries; has_ca: also those that name certificates. */
int road_env(bool has_ca, struct strv *ret, struct err *err);
