/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/serve_options.h"

#include "tap.h"

#include <errno.h>

static int parse(const char *yaml, struct serve_options *o, struct err *err)
{
	*o = (struct serve_options){0};
	return serve_config_parse(yaml, strlen(yaml), "c.yaml", o, err);
}

static void every_field_of_a_config_is_taken(void)
{
	struct serve_options o;
	struct err err = {0};

	CHECK_INT(parse("listen: [127.0.0.1:1, 'unix:/run/x']\n"
			"domain: box.example:7070\n"
			"ttl: 10m\nttl-max: 2h\nmemory: 1G\ndisk: 2G\npids: 10\ncpus: 1.5\n"
			"open-files: 100\nmax-sandboxes: 7\nkill-on-exit: true\njson-log: true\n",
			  &o, &err),
		0);
	CHECK_INT(o.listen.n, 2);
	CHECK_STR(o.listen.v[1], "unix:/run/x");
	CHECK_STR(o.domain, "box.example:7070");
	CHECK_INT(o.ttl_ms, 600000);
	CHECK_INT(o.ttl_max_ms, 7200000);
	CHECK_INT(o.memory, 1 << 30);
	CHECK_INT(o.disk, 2ll << 30);
	CHECK_INT(o.pids, 10);
	CHECK_INT(o.cpu_milli, 1500);
	CHECK_INT(o.open_files, 100);
	CHECK_INT(o.sandboxes, 7);
	CHECK(o.kill_on_exit && o.json_log);
	serve_options_done(&o);
}

static void an_empty_config_says_nothing(void)
{
	struct serve_options o;
	struct err err = {0};

	CHECK_INT(parse("", &o, &err), 0);
	CHECK_INT(parse("# only a comment\n", &o, &err), 0);
	CHECK(!o.is_listen_given);
	serve_options_done(&o);
}

static void a_wrong_config_names_its_line(void)
{
	static const struct {
		const char *yaml, *msg;
	} cases[] = {
		{"domian: x\n", "c.yaml:1: unknown field 'domian'; did you mean 'domain'?"},
		{"domain: x\n\ncpus: many\n",
			"c.yaml:3: cpus: accepted: a number such as 2 or 0.5"},
		{"domain: UPPER\n", "c.yaml:1: domain: accepted: a host name in lower case, with "
				    ":PORT if it is not 443"},
		{"memory: 1K\n", "c.yaml:1: memory: at least 1M"},
		{"ttl: 0\n", "c.yaml:1: ttl: at least one second"},
		{"config: x\n", "c.yaml:1: unknown field 'config'; 'bawn serve --help' lists them"},
		{"pids: {a: b}\n",
			"c.yaml:1: a field takes one value (only 'listen' takes a list)"},
		{"a: b\n---\nc: d\n", NULL},
		{"pids: *x\n", NULL},
		{"pids: !!int 3\n", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct serve_options o;
		struct err err = {0};

		CHECK_INT(parse(cases[i].yaml, &o, &err), -EINVAL);
		if (cases[i].msg)
			CHECK_STR(err.msg, cases[i].msg);
		CHECK(strncmp(err.msg, "c.yaml:", 7) == 0);
		serve_options_done(&o);
	}
}

static void options_beat_the_defaults_and_must_fit_together(void)
{
	char verb[] = "serve", state[] = "--state", dir[] = "/x/../y", ttl[] = "--ttl=2d",
	     cert[] = "--tls-cert=/c";
	char *fine[] = {verb, state, dir, NULL};
	char *too_long[] = {verb, state, dir, ttl, NULL};
	char *half[] = {verb, state, dir, cert, NULL};
	struct serve_options o;
	struct err err = {0};

	CHECK_INT(serve_options_parse(3, fine, &o, &err), 0);
	CHECK_STR(o.state, "/y");
	CHECK_INT(o.ttl_ms, 300000);
	serve_options_done(&o);
	CHECK_INT(serve_options_parse(4, too_long, &o, &err), -EINVAL);
	CHECK_STR(err.msg, "ttl is above ttl-max");
	serve_options_done(&o);
	CHECK_INT(serve_options_parse(4, half, &o, &err), -EINVAL);
	CHECK_STR(err.msg, "--tls-cert and --tls-key go together");
	serve_options_done(&o);
}

int main(void)
{
	RUN(every_field_of_a_config_is_taken);
	RUN(an_empty_config_says_nothing);
	RUN(a_wrong_config_names_its_line);
	RUN(options_beat_the_defaults_and_must_fit_together);
	return tap_done();
}
