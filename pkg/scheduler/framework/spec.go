// SPDX-License-Identifier: Apache-2.0

package framework

import (
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Arguments are a plugin's arguments as volcano-scheduler.conf gives them: argument name to YAML value.
type Arguments = vcframework.Arguments

// ArgumentType says which YAML values an argument takes.
type ArgumentType string

// The argument types. A Number is an integer or a decimal; a Duration is a string such as "30s"; an Object is
// a mapping or a list whose inside the plugin's own Validate checks.
const (
	String   ArgumentType = "string"
	Bool     ArgumentType = "bool"
	Int      ArgumentType = "int"
	Number   ArgumentType = "number"
	Duration ArgumentType = "duration"
	Strings  ArgumentType = "list of strings"
	Object   ArgumentType = "object"
	// AnyType is for upstream arguments that read several types.
	AnyType ArgumentType = "any"
)

// MaxWeight is the largest weight that an argument may have: products of weights and scores, and their sums, stay within what an
// int64 holds and a float64 tells apart.
const MaxWeight = 1_000_000

// Argument declares one argument of a plugin or action. Config validation and the generated configuration
// page both read these declarations; nothing else lists a plugin's arguments.
type Argument struct {
	// Name is the key under `arguments:`. A name ending in "*" declares a family of keys with that prefix.
	Name string
	Type ArgumentType
	// Default is the default as a user would write it; empty when there is none.
	Default string
	// Doc is one sentence that says what the argument does, with its unit.
	Doc string
	// Enum lists the accepted values of a String; empty accepts any.
	Enum []string
	// Required is true if the plugin does nothing without it.
	Required bool
	// Fields are the types of those fields of an Object's mappings, where it is a list of such, that are numbers or flags: in
	// quotes they are taken all the same.
	Fields map[string]ArgumentType
}

// PluginSpec is all a plugin tells of itself before it is built.
type PluginSpec struct {
	// Name is the plugin's name in volcano-scheduler.conf.
	Name string
	// Doc is one sentence for the generated configuration page.
	Doc       string
	Arguments []Argument
	// Validate checks arguments beyond names and types, without a cluster; nil when there is nothing more to check.
	// Its errors name the argument, what was found and what would be right.
	Validate func(Arguments) error
	// New builds the plugin. It is called once per loaded configuration, not once per session, so what it
	// compiles or starts is kept for as long as that configuration is in force; a plugin that is a Closer ends it then.
	New func(Arguments, Handle) (Plugin, error)
	// Extends is true of a plugin that takes over the name of upstream's and does all that one does: it has its arguments, and their
	// checks, beside its own.
	Extends bool
	// BuiltIn is true if the built-in configuration names the plugin, which is upstream's otherwise.
	BuiltIn bool
	// TimeDriven is true if the plugin's verdicts change with time alone, so that cycles must run even when
	// nothing in the cluster changed.
	TimeDriven bool
	// TakesOver are switches of other plugins that are given these values when the conf names this plugin, which does what they
	// switch on. Another value is an error then, and so are arguments of those plugins that have the name of one of this plugin's.
	TakesOver []Switch
	// LeavesTasks is true if the plugin changes tasks that have a node, and nodes, only with methods of the session, of jobs and of nodes. Sessions with
	// such plugins alone leave less to compare before the next one. The zero value is right for any plugin.
	LeavesTasks bool
}

// Switch is a Bool argument of a plugin, with a value.
type Switch struct {
	Plugin, Argument string
	Value            bool
}

// DefaultStepTimeout bounds a pre-bind step that does not give its own deadline with WithTimeout.
const DefaultStepTimeout = binding.DefaultStepTimeout
