// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bufio"
	"io"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

const preamble = `# Configuration

<!-- Written by hack/confdoc from the declarations that the scheduler checks files with. Do not edit: make generate. -->

` + "`vc-scheduler`" + ` reads the same ` + "`volcano-scheduler.conf`" + ` as upstream's, from the path in ` + "`--scheduler-conf`" + `.
Check a file before you use it:

` + "```sh\nvc-scheduler --validate-conf volcano-scheduler.conf\n```" + `

## The file

` + "```yaml" + `
actions: "enqueue, allocate, backfill"   # the stages of a cycle, in order
tiers:                                   # plugins in tiers; an earlier tier decides first
- plugins:
  - name: gang
    enablePreemptable: false             # switches off one kind of its functions
  - name: predicates
    arguments:
      predicate.PodAffinityEnable: false
configurations:                          # arguments of actions and built-in blocks
- name: preempt
  arguments:
    enableTopologyAwarePreemption: true
metrics:                                 # where node usage is read from
  type: prometheus
  address: http://prometheus.monitoring:9090
` + "```" + `

| Key | Type | Meaning |
|---|---|---|
| ` + "`actions`" + ` | string | Names of actions, separated by commas. Must not be empty. |
| ` + "`tiers[].plugins[].name`" + ` | string | A plugin. Each may be named once in the file. |
| ` + "`tiers[].plugins[].arguments`" + ` | mapping | Its arguments, see [Plugins](#plugins). |
| ` + "`tiers[].plugins[].enable...`" + ` | bool | Its switches, see [Switches](#switches-of-a-plugin). |
| ` + "`configurations[].name`" + ` | string | An action, or one of the [blocks](#built-in-blocks). Each may be given once. |
| ` + "`configurations[].arguments`" + ` | mapping | Its arguments. |
| ` + "`metrics`" + ` | mapping | See [Metrics](#metrics). |

The order of plugins in the file, tier by tier, is the order of their pre-bind steps.

Without ` + "`--scheduler-conf`" + `, or with an empty file, the built-in configuration is used. The [chart's](operations.md#configuration) names more plugins.

`

const behaviour = `
## What is an error

These are errors:

- an unknown key, action, plugin or argument;
- a value of the wrong type or out of range (a weight below zero or over 1000000, a URL without a host);
- a plugin or a key named twice, and a file that names no plugin;
- plugins that cannot work together or alone: ` + "`proportion`" + ` beside ` + "`capacity`" + `, ` + "`usage`" + ` without ` + "`metrics`" + `, ` + "`bindpolicy`" + ` without a policy.

Upstream ignores most of these. The errors of a file are reported at once, the first 50 of them, each
with its line and the nearest valid name:

` + "```" + `
volcano-scheduler.conf: line 6: plugin "predicatse" is unknown; did you mean "predicates"?
volcano-scheduler.conf: line 9: argument "overcommit-factor" of plugin "overcommit" must be a number, found string "many"
` + "```" + `

A number or a flag in quotes (` + "`\"true\"`" + `, ` + "`\"5\"`" + `), as some of Volcano's tools write them, is read as that number or flag: a switch of a plugin, an
argument, or a value inside one. A warning in the log, and of ` + "`--validate-conf`" + `, names its line. So does one when an action is named more than once.

At start an error ends the process with exit code 1. So does a file that cannot be read, that is no regular file, or that is larger
than 1 MiB.

## Reload

The file is watched and read again when its content changes. This works for a mounted ConfigMap, whose files are replaced
by swapping a symlink, and for a plain file, written in place or renamed over. A new configuration is in force from
the next cycle on, but for arguments that are read at start; transactions under way end as they began.

A file with an error changes nothing: the configuration in force stays, and an event and a metric say so. The same holds
for a file that is emptied, and for one that cannot be read for a second: because it was removed, is larger than 1 MiB, or is no longer a
regular file. When it is back it is read again.
`

const switchesIntro = `
## Switches of a plugin

Each switches one kind of functions of its plugin; a switch for a kind that the plugin does not have has no effect. Most are on
unless given as ` + "`false`" + `. Upstream spells some of them ` + "`enabled...`" + ` and one with a capital; they must be written exactly so.

| Key | Default | What it switches |
|---|---|---|
`

// WriteDoc writes docs/configuration.md: the format of the file, and everything that the catalogue lists.
func WriteDoc(w io.Writer, cat *Catalogue) error {
	out := bufio.NewWriter(w)
	d := docWriter{out}
	d.print(preamble, "```yaml\n", strings.TrimSpace(string(cat.builtIn())), "\n```\n", switchesIntro)
	for _, s := range pluginSwitches() {
		def := "true"
		if s.offByDefault {
			def = "false"
		}
		d.row(code(s.key), code(def), s.doc)
	}
	d.print("\n## Plugins\n\nAn argument that ends in `*` stands for all keys with that prefix.\n")
	d.entries(cat.plugins, ours)
	d.print("\nThe following are upstream's.\n")
	d.entries(cat.plugins, upstream)
	d.print("\nPlugins of your own are linked into a build of your own, which knows their arguments like those above; see [PreBind](prebind.md#what-you-can-build-on). ",
		"Shared objects (`--plugins-dir`) are not loaded.\n")
	d.print("\n## Actions\n\nTheir arguments stand under `configurations`.\n")
	d.entries(cat.actions, ours)
	d.entries(cat.actions, upstream)
	d.print("\n## Built-in blocks\n\nFurther names under `configurations`.\n")
	d.entries(cat.blocks, ours)
	d.entries(cat.blocks, upstream)
	d.print("\n## Metrics\n\n", cat.metrics.Doc, "\n")
	d.table(cat.metrics.Arguments)
	d.print(behaviour)
	return out.Flush()
}

// docWriter writes Markdown. The buffer keeps a write error until Flush returns it.
type docWriter struct{ out *bufio.Writer }

func (d docWriter) print(parts ...string) {
	for _, part := range parts {
		_, _ = d.out.WriteString(part)
	}
}

func (d docWriter) row(cells ...string) {
	d.print("| ", strings.Join(cells, " | "), " |\n")
}

func (d docWriter) entries(entries map[string]entry, from origin) {
	for _, name := range names(entries) {
		e := entries[name]
		if e.origin != from {
			continue
		}
		d.print("\n", "### ", code(e.Name), "\n")
		if e.Doc != "" {
			d.print("\n", e.Doc, "\n")
		}
		d.table(e.Arguments)
	}
}

func (d docWriter) table(args []framework.Argument) {
	if len(args) == 0 {
		return
	}
	d.print("\n| Argument | Type | Default | Meaning |\n|---|---|---|---|\n")
	for _, arg := range args {
		kind := string(arg.Type)
		if len(arg.Enum) > 0 {
			quoted := make([]string, len(arg.Enum))
			for i, value := range arg.Enum {
				quoted[i] = code(value)
			}
			kind = strings.Join(quoted, " or ")
			if arg.Type != framework.String {
				kind = string(arg.Type) + " or " + kind
			}
		}
		d.row(code(arg.Name), cell(kind), code(arg.Default), cell(arg.Doc))
	}
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + cell(text) + "`"
}

// cell escapes text for a table cell.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}
