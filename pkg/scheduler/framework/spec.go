// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Arguments are a plugin's arguments from volcano-scheduler.conf: argument name to YAML value.
type Arguments = vcframework.Arguments

// ArgumentType is the type of YAML value that an argument takes.
type ArgumentType string

// The argument types. A Number is an integer or a decimal; a Duration is a string such as "30s"; an Object is a mapping or a list
// whose content the plugin's own Load checks.
const (
	String   ArgumentType = "string"
	Bool     ArgumentType = "bool"
	Int      ArgumentType = "int"
	Number   ArgumentType = "number"
	Duration ArgumentType = "duration"
	Strings  ArgumentType = "list of strings"
	Object   ArgumentType = "object"
	// AnyType is the type of those upstream arguments that accept several types of values.
	AnyType ArgumentType = "any"
)

// MaxWeight is the largest weight that an argument may have. It keeps products of weights and scores, and their sums, within
// int64 and exact in float64.
const MaxWeight = 1_000_000

// Argument declares one argument of a plugin or action. The validation of configurations and the generated
// documentation use these declarations; nothing else lists a plugin's arguments.
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
	// Required reports whether the plugin has no effect without the argument.
	Required bool
	// Fields are the types of number and flag fields in the mappings of an Object. Quoted values of these fields are
	// also accepted.
	Fields map[string]ArgumentType
}

// PluginSpec describes a plugin before it is built.
type PluginSpec struct {
	// Name is the plugin's name in volcano-scheduler.conf.
	Name string
	// Doc is one sentence for the generated configuration page.
	Doc       string
	Arguments []Argument
	// Load parses the arguments, and returns the function that builds the plugin with the parsed values. It has no access
	// to a cluster and changes nothing, because it also checks configurations that are never used. It rejects invalid
	// values; its errors name the argument, the value found and a valid value.
	Load func(Arguments) (Builder, error)
	// Extends reports whether the plugin replaces upstream's plugin of the same name and includes its behavior. It then
	// accepts upstream's arguments, with upstream's checks, beside its own arguments.
	Extends bool
	// BuiltIn reports whether the built-in configuration names the plugin. That configuration is upstream's default plus
	// these plugins.
	BuiltIn bool
	// TimeDriven reports whether the plugin's verdicts change with time alone, so that cycles must run even when nothing in the
	// cluster changed.
	TimeDriven bool
	// TakesOver are arguments of other plugins that get these values when the conf names this plugin, because this
	// plugin implements the feature that they enable. The conf must not give them other values. It also must not set an
	// argument of those plugins that this plugin has, too.
	TakesOver []Switch
	// PendingCategories maps the reasons of the plugin's JobValid verdicts to categories, by which metrics count how long
	// gangs wait. A reason that is not listed has category PendingOther.
	PendingCategories map[string]PendingCategory
	// ExplainsShortages are resources whose shortages the plugin's predicate explains better than a comparison of the
	// request with the node's idle amount. allocate therefore calls the predicates also for nodes that lack only such
	// resources.
	ExplainsShortages []v1.ResourceName
	// LeavesTasks reports whether the plugin changes nodes, and tasks that have a node, only with methods of Session,
	// JobInfo and NodeInfo. After sessions with only such plugins, the next snapshot has less to compare. False is safe
	// for any plugin.
	LeavesTasks bool
	// ported reports whether the plugin is written against upstream's framework (FromUpstream).
	ported bool
}

// Builder builds a plugin. It is called once for each configuration that is put into effect, not once for each session.
// The plugin's compiled results and its goroutines last as long as that configuration is current. A plugin that is a
// Closer ends its goroutines in Close.
type Builder func(Handle) (Plugin, error)

// WithoutArguments returns the Load function of a plugin that has no arguments.
func WithoutArguments(build Builder) func(Arguments) (Builder, error) {
	return func(Arguments) (Builder, error) { return build, nil }
}

// New loads the arguments and builds the plugin.
func (s PluginSpec) New(args Arguments, h Handle) (Plugin, error) {
	build, err := s.Load(args)
	if err != nil {
		return nil, err
	}
	return build(h)
}

// Switch requires that a boolean argument of a plugin has the given value.
type Switch struct {
	Plugin, Argument string
	Value            bool
}

// DefaultStepTimeout bounds a pre-bind step without a deadline of its own (WithTimeout).
const DefaultStepTimeout = binding.DefaultStepTimeout
