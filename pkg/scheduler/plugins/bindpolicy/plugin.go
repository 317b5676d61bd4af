// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"context"
	"fmt"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = "bindpolicy"

// The names of the plugin's arguments.
const (
	policiesArgument = "bindpolicy.policies"
	timeoutArgument  = "bindpolicy.timeout"
)

const (
	defaultTimeout = 10 * time.Second
	// verdictGrace is how much longer the pre-bind step may take than the timeout of its check. The step needs this time
	// to apply the failure policies after a check that timed out.
	verdictGrace = 5 * time.Second
)

// Spec declares the plugin.
func Spec() framework.PluginSpec {
	return framework.PluginSpec{
		Name: Name,
		Doc:  "Checks each task against CEL policies over the live pod, node and PodGroup just before it is bound.",
		Arguments: []framework.Argument{
			{
				Name: policiesArgument, Required: true,
				Type: framework.Object, Fields: map[string]framework.ArgumentType{"costLimit": framework.Int},
				Doc: "List of policies, each a mapping with name, expression and optionally matchCondition, " +
					"messageExpression, message, failurePolicy (Fail or Ignore) and costLimit; see docs/plugins/bindpolicy.md.",
			},
			{
				Name:    timeoutArgument,
				Type:    framework.Duration,
				Default: defaultTimeout.String(),
				Doc: "How long the check of one task may take, reads included; a policy without a result after that " +
					"counts by its failurePolicy.",
			},
		},
		LeavesTasks: true,
		Load: func(args framework.Arguments) (framework.Builder, error) {
			settings, err := load(args)
			return func(h framework.Handle) (framework.Plugin, error) {
				if len(settings.policies) == 0 {
					return idle{}, nil
				}
				return &plugin{settings: settings, reader: newReader(h.KubeClient(), h.VCClient())}, nil
			}, err
		},
	}
}

// settings are the plugin's parsed and compiled arguments.
type settings struct {
	policies []*policy
	timeout  time.Duration
}

// load parses and compiles the plugin's arguments. It reports all errors at once, up to maxFindings.
func load(args framework.Arguments) (settings, error) {
	timeout, timeoutErr := parseTimeout(args)
	configs, parseErr := parsePolicies(args)
	policies, compileErr := compilePolicies(configs)
	return settings{policies: policies, timeout: timeout}, joined(timeoutErr, parseErr, compileErr)
}

// idle is the plugin when no policies are configured. It has no pre-bind step.
type idle struct{ framework.NoFilter }

// Name implements framework.Plugin.
func (idle) Name() string { return Name }

// OnSessionOpen implements framework.Plugin.
func (idle) OnSessionOpen(*framework.Session) {}

// OnSessionClose implements framework.Plugin.
func (idle) OnSessionClose(*framework.Session) {}

// plugin is the plugin when policies are configured.
type plugin struct {
	idle
	settings
	reader *reader
}

var (
	_ framework.Plugin          = idle{}
	_ framework.PreBindOptioner = (*plugin)(nil)
)

// PreBindOptions implements framework.PreBindOptioner.
func (p *plugin) PreBindOptions() []framework.PreBindOption {
	return []framework.PreBindOption{framework.WithTimeout(p.timeout + verdictGrace)}
}

// PreBind implements framework.PreBinder. It checks the policies in the order of the configuration, and returns the
// refusal of the first policy that refuses the task.
func (p *plugin) PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	check, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	live := p.reader.view(task, nodeName)
	for _, policy := range p.policies {
		if err := policy.check(check, live); err != nil {
			return err
		}
		// If the check's own timeout has passed, the failure policies decide. If the step's context has ended, the task is
		// refused.
		if ctx.Err() != nil {
			return fmt.Errorf("the check of pod %s/%s on node %s was ended: %w", task.Namespace, task.Name, nodeName, context.Cause(ctx))
		}
	}
	return nil
}

// Rollback implements framework.PreBinder. It does nothing, because PreBind writes nothing.
func (p *plugin) Rollback(context.Context, *api.TaskInfo, string) error { return nil }
