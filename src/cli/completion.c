/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/completion - `bawn completion bash|zsh|fish`: a script made from the table of verbs.
 */
#include "base/text.h"
#include "cli/verb.h"

#include <string.h>

static const char help[] = "usage: bawn completion bash|zsh|fish\n"
			   "\n"
			   "Print a completion script. To use it now:\n"
			   "  bash   source <(bawn completion bash)\n"
			   "  zsh    source <(bawn completion zsh)\n"
			   "  fish   bawn completion fish | source\n";

static void print_names(void)
{
	const char *gap = "";

	for (const struct verb *v = verb_table; v->name; v++) {
		if (v->hidden)
			continue;
		(void)printf("%s%s", gap, v->name);
		gap = " ";
	}
}

/* Names of live sandboxes come from the server, where there is one; never an error message. */
static void print_bash(void)
{
	(void)fputs("_bawn() {\n"
		    "\tlocal word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} options=\n"
		    "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
		    "\t\tCOMPREPLY=($(compgen -W '",
		stdout);
	print_names();
	(void)fputs("' -- \"$word\"))\n"
		    "\t\treturn\n"
		    "\tfi\n"
		    "\tcase $verb in\n",
		stdout);
	for (const struct verb *v = verb_table; v->name; v++) {
		if (!v->hidden && v->options)
			(void)printf("\t%s) options='%s' ;;\n", v->name, v->options);
	}
	(void)fputs("\tesac\n"
		    "\tcase $word in\n"
		    "\t-*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
		    "\t*)\n"
		    "\t\tCOMPREPLY=($(compgen -f -- \"$word\"))\n"
		    "\t\tcase $verb in\n"
		    "\t\tinfo | exec | shell | cp | logs | kill | ttl | events | port)\n"
		    "\t\t\tCOMPREPLY+=($(compgen -W \"$(bawn ls --quiet 2>/dev/null)\" -- "
		    "\"$word\")) ;;\n"
		    "\t\tesac ;;\n"
		    "\tesac\n"
		    "}\n"
		    "complete -o filenames -F _bawn bawn\n",
		stdout);
}

static void print_fish(void)
{
	for (const struct verb *v = verb_table; v->name; v++) {
		AUTO_FREE char *options = NULL;

		if (v->hidden)
			continue;
		(void)printf("complete -c bawn -n __fish_use_subcommand -f -a %s -d \"%s\"\n",
			v->name, v->summary);
		if (!v->options)
			continue;
		options = text_format("%s", v->options);
		for (char *rest = options, *word; (word = strsep(&rest, " ")) != NULL;)
			(void)printf("complete -c bawn -n '__fish_seen_subcommand_from %s' -l "
				     "%s\n",
				v->name, word + strspn(word, "-"));
	}
	(void)fputs(
		"complete -c bawn -n '__fish_seen_subcommand_from info exec shell logs kill ttl "
		"events port' -a '(bawn ls --quiet 2>/dev/null)'\n",
		stdout);
}

int verb_completion(int argc, char **argv)
{
	char quoted[64];

	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		(void)fputs(help, stdout);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "bash") == 0) {
		print_bash();
	} else if (argc == 2 && strcmp(argv[1], "zsh") == 0) {
		(void)fputs("autoload -U +X bashcompinit && bashcompinit\n", stdout);
		print_bash();
	} else if (argc == 2 && strcmp(argv[1], "fish") == 0) {
		print_fish();
	} else {
		(void)fprintf(stderr,
			"bawn: completion: '%s' is not a shell we know; accepted: "
			"bash, zsh, fish\n",
			text_quote(argc > 1 ? argv[1] : "", quoted, sizeof(quoted)));
		return EXIT_BAWN;
	}
	return 0;
}
