/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where people of this machine live, and where the caller's environment says that
 * their secrets lie. Only paths; whether they exist and are hidden is decided elsewhere.
 */
#include "base/own.h"
#include "run/process/host_view_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PEOPLE_FIRST 1000  /* user ids below are the system's */
#define PEOPLE_LAST  65533 /* 65534 is nobody */

/* Programs or every service's settings: never hidden whole, whoever calls it a home. */
static const char *const system_dirs[] = {
	"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/nix", "/snap", "/opt", "/srv", "/var"};

bool host_is_system_dir(const char *path)
{
	for (size_t i = 0; i < sizeof(system_dirs) / sizeof(system_dirs[0]); i++) {
		if (text_path_below(system_dirs[i], path))
			return true;
	}
	return false;
}

static bool is_system(const char *path)
{
	for (size_t i = 0; i < sizeof(system_dirs) / sizeof(system_dirs[0]); i++) {
		if (text_path_below(path, system_dirs[i]))
			return true;
	}
	return host_is_system_dir(path);
}

static int add_home(
	const char *path, uint64_t uid, struct strv *whole, struct strv *in_part, struct err *err)
{
	AUTO_FREE char *real = path[0] == '/' ? realpath(path, NULL) : NULL;
	struct stat st;

	if (!real || !real[1] || stat(real, &st) < 0 || !S_ISDIR(st.st_mode) ||
		faccessat(AT_FDCWD, real, X_OK, AT_EACCESS) < 0)
		return 0;
	return host_view_add(is_system(real) || st.st_uid != uid ? in_part : whole, real, err);
}

int host_find_people(struct strv *whole, struct strv *in_part, struct err *err)
{
	AUTO_FILE FILE *f = fopen("/etc/passwd", "re");
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	int r = 0;

	/* name:password:uid:gid:comment:home:shell */
	while (r == 0 && f && whole->n < HOST_HOMES_MAX && getline(&line, &room, f) > 0) {
		char *rest = line;
		char *field[6] = {NULL};
		const char *number;
		uint64_t uid;

		for (int i = 0; i < 6; i++)
			field[i] = strsep(&rest, ":\n");
		number = field[2];
		if (!field[5] || text_scan_u64(&number, &uid) < 0 || uid < PEOPLE_FIRST ||
			uid > PEOPLE_LAST)
			continue;
		r = add_home(field[5], uid, whole, in_part, err);
	}
	return r;
}

int host_env_secrets(struct strv *out, struct err *err)
{
	static const char *const names[] = {
		"KUBECONFIG",                     /* a list: cluster keys */
		"AWS_SHARED_CREDENTIALS_FILE",    /* keys */
		"AWS_CONFIG_FILE",                /* single sign-on, assumed roles */
		"AWS_WEB_IDENTITY_TOKEN_FILE",    /* token */
		"GOOGLE_APPLICATION_CREDENTIALS", /* key */
		"CLOUDSDK_CONFIG",                /* tokens */
		"AZURE_CONFIG_DIR",               /* tokens */
		"DOCKER_CONFIG",                  /* registry passwords */
		"REGISTRY_AUTH_FILE",             /* registry passwords */
		"GNUPGHOME",                      /* keys */
		"SSH_AUTH_SOCK",                  /* an agent that signs */
		"GH_CONFIG_DIR",                  /* tokens */
		"NETRC",                          /* passwords */
		"CURL_HOME",                      /* .netrc, .curlrc */
		"PGPASSFILE",                     /* passwords */
		"PGSERVICEFILE",                  /* passwords */
		"MYSQL_HOME",                     /* passwords */
		"NPM_CONFIG_USERCONFIG",          /* tokens */
		"npm_config_userconfig",          /* tokens */
		"PIP_CONFIG_FILE",                /* index passwords */
		"VAULT_TOKEN_PATH",               /* token */
		"PASSWORD_STORE_DIR",             /* passwords */
		"SOPS_AGE_KEY_FILE",              /* key */
		"ANSIBLE_VAULT_PASSWORD_FILE",    /* password */
		"KRB5CCNAME",                     /* tickets */
		"KRB5_KTNAME",                    /* keys */
		"XAUTHORITY",                     /* the display */
		"HISTFILE",                       /* commands typed, with what was in them */
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);
		AUTO_FREE char *copy = value ? text_format("%s", value) : NULL;
		char *rest = copy;
		char *part;

		/* "FILE:/tmp/krb5cc": a kind before the path falls out as a relative part. */
		while (rest && (part = strsep(&rest, ":"))) {
			int r = part[0] == '/' ? host_view_add(out, part, err) : 0;

			if (r < 0)
				return r;
		}
	}
	return 0;
}

const struct host_moved host_moved[] = {
	{"XDG_CONFIG_HOME", ".config/"},
	{"XDG_DATA_HOME", ".local/share/"},
	{"XDG_STATE_HOME", ".local/state/"},
	{"XDG_CACHE_HOME", ".cache/"},
	{"CARGO_HOME", ".cargo/"},
	{"CODEX_HOME", ".codex/"},
	{"CLAUDE_CONFIG_DIR", ".claude/"},
};
const size_t host_moved_n = sizeof(host_moved) / sizeof(host_moved[0]);
