// SPDX-License-Identifier: Apache-2.0

package config

import (
	_ "embed" // for the template
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

//go:embed configuration.md.tmpl
var page string

// WriteDoc writes docs/configuration.md: the format of the file, and everything that the catalogue lists.
func WriteDoc(w io.Writer, cat *Catalogue) error {
	t, err := template.New("page").Funcs(template.FuncMap{"code": code, "cell": cell, "kind": kindOf}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, map[string]any{
		"BuiltIn": strings.TrimSpace(string(cat.builtIn())), "Switches": pluginSwitches(), "Metrics": cat.metrics,
		"OurPlugins": from(ours, cat.plugins), "UpstreamPlugins": from(upstream, cat.plugins),
		"Actions": slices.Concat(from(ours, cat.actions), from(upstream, cat.actions)),
		"Blocks":  slices.Concat(from(ours, cat.blocks), from(upstream, cat.blocks)),
	})
}

// from returns the entries of this origin, in the order of their names.
func from(origin origin, entries map[string]entry) (list []entry) {
	for _, name := range names(entries) {
		if entries[name].origin == origin {
			list = append(list, entries[name])
		}
	}
	return list
}

// kindOf returns the type of the argument's values, or their list.
func kindOf(arg framework.Argument) string {
	if len(arg.Enum) == 0 {
		return string(arg.Type)
	}
	var kinds []string
	if arg.Type != framework.String {
		kinds = append(kinds, string(arg.Type))
	}
	for _, value := range arg.Enum {
		kinds = append(kinds, code(value))
	}
	return strings.Join(kinds, " or ")
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
