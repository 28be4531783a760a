/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of /v1. docs/openapi.json says the same in its own words; a test compares them.
 */
#include "api/v1/v1.h"

#define SANDBOX "/v1/sandboxes/{id}"
#define EXEC    SANDBOX "/exec/{exec}"

const struct route v1_routes[] = {
	{"GET", "/v1/capabilities", v1_capabilities, 0, "What this server can do and enforces"},
	{"GET", "/v1/whoami", v1_whoami, 0, "Whose key this is"},

	{"POST", "/v1/sandboxes", v1_sandbox_create, 0, "Make a sandbox"},
	{"GET", "/v1/sandboxes", v1_sandbox_list, 0, "List sandboxes, newest first"},
	{"GET", SANDBOX, v1_sandbox_get, 0, "One sandbox, also after its end"},
	{"DELETE", SANDBOX, v1_sandbox_delete, 0, "End a sandbox"},
	{"POST", SANDBOX "/timeout", v1_sandbox_timeout, 0, "Let it live so long from now"},
	{"PUT", SANDBOX "/labels", v1_sandbox_labels, 0, "Replace its labels"},
	{"GET", SANDBOX "/walls", v1_sandbox_walls, 0, "Its walls, requested and enforced"},
	{"GET", SANDBOX "/explain", v1_sandbox_explain, 0, "Why it is as it is"},
	{"POST", SANDBOX "/recover", v1_sandbox_recover, 0, "A new one like the one that ended"},
	{"GET", SANDBOX "/metrics", v1_sandbox_metrics, 0, "What it used, the last minutes"},
	{"GET", SANDBOX "/logs", v1_sandbox_logs, 0, "What happened in it"},
	{"GET", SANDBOX "/violations", v1_sandbox_violations, 0, "What it was refused"},
	{"GET", SANDBOX "/network", v1_network_get, 0, "What it may reach, and what it used"},
	{"PATCH", SANDBOX "/network", v1_network_change, 0, "Change what it may reach, live"},
	{"GET", SANDBOX "/ports/{port}", v1_port_get, 0, "Whether a port is open, how to reach it"},

	{"POST", SANDBOX "/exec", v1_exec_start, 0, "Run a command, exactly once per key"},
	{"GET", SANDBOX "/exec", v1_exec_list, 0, "The processes in it"},
	{"GET", EXEC, v1_exec_get, 0, "A command and how it ended"},
	{"GET", EXEC "/output", v1_exec_output, 0, "Its output, from an offset"},
	{"POST", EXEC "/input", v1_exec_input, 0, "Bytes to its standard input"},
	{"POST", EXEC "/signal", v1_exec_signal, 0, "Send it a signal"},
	{"POST", EXEC "/resize", v1_exec_resize, 0, "Resize its terminal"},

	{"GET", SANDBOX "/files", v1_file_get, 0, "Read a file"},
	{"PUT", SANDBOX "/files", v1_file_put, 0, "Write a file, whole or not at all"},
	{"DELETE", SANDBOX "/files", v1_file_remove, 0, "Remove a file or a tree"},
	{"GET", SANDBOX "/files/list", v1_file_list, 0, "List a directory"},
	{"GET", SANDBOX "/files/stat", v1_file_stat, 0, "One file or directory"},
	{"POST", SANDBOX "/files/move", v1_file_move, 0, "Move a file or directory"},
	{"POST", SANDBOX "/files/mkdir", v1_file_mkdir, 0, "Make a directory and its parents"},

	{"GET", "/v1/events", v1_events, 0, "Events: a page, or as they happen"},
	{"GET", "/v1/webhooks", v1_webhook_list, 0, "List webhooks"},
	{"POST", "/v1/webhooks", v1_webhook_create, 0, "Have events delivered to a URL"},
	{"GET", "/v1/webhooks/{id}", v1_webhook_get, 0, "One webhook and how it does"},
	{"PATCH", "/v1/webhooks/{id}", v1_webhook_change, 0, "Change or switch it on again"},
	{"DELETE", "/v1/webhooks/{id}", v1_webhook_remove, 0, "Remove a webhook"},

	{"GET", "/v1/secrets", v1_secret_list, 0, "List the tenant's secrets, without values"},
	{"GET", "/v1/secrets/{name}", v1_secret_get, 0, "One secret: version and placeholder"},
	{"PUT", "/v1/secrets/{name}", v1_secret_put, 0, "Set a secret, or give it a new value"},
	{"PATCH", "/v1/secrets/{name}", v1_secret_put, 0, "Give one that is there a new value"},
	{"DELETE", "/v1/secrets/{name}", v1_secret_remove, 0, "Revoke a secret at once"},

	{"GET", "/v1/keys", v1_key_list, 0, "List the tenant's keys"},
	{"POST", "/v1/keys", v1_key_create, 0, "Make a key; it is shown once"},
	{"DELETE", "/v1/keys/{id}", v1_key_revoke, 0, "Revoke a key"},

	{"GET", "/v1/asks", v1_ask_list, 0, "What sandboxes want and a person has to allow"},
	{"GET", "/v1/asks/{ask}", v1_ask_get, 0, "One of them"},
	{"POST", "/v1/asks/{ask}", v1_ask_answer, 0, "Allow or deny it"},
	{"GET", "/v1/profiles", v1_profile_list, 0, "The tenant's own profiles"},
	{"GET", "/v1/profiles/{name}", v1_profile_get, 0, "One profile, also of the server"},
	{"PUT", "/v1/profiles/{name}", v1_profile_put, 0, "A new version of a profile"},
	{0},
};
