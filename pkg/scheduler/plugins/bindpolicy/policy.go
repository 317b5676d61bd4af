// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

const (
	// maxMessage limits, in bytes, the reason that a policy adds to an error, an event and a condition.
	maxMessage = 300
	// maxCheckCost limits the total CEL cost of all policies in the check of one task. The API server has the same limit
	// for all expressions that check one object.
	maxCheckCost = celconfig.RuntimeCELCostBudget
)

// policy is one compiled policy. It is safe for concurrent use.
type policy struct {
	name string
	// matchCondition selects the tasks to which the policy applies; nil if it applies to every task.
	matchCondition *expression
	expression     *expression
	// messageExpression and message give the reason of a refusal. If both are set, messageExpression is preferred. Both
	// are optional.
	messageExpression *expression
	message           string
	failurePolicy     failurePolicy
}

// check returns nil if the policy allows binding the task. Otherwise it returns an error that names the policy, the pod
// and the node.
func (p *policy) check(ctx context.Context, live *view) error {
	allowed, err := p.evaluate(ctx, live)
	var gone *goneError
	switch {
	case errors.As(err, &gone):
		return p.refusal(live, gone.Error())
	case err != nil && p.failurePolicy == failOpen:
		klog.FromContext(ctx).Info("Ignored a policy that cannot be evaluated; its failurePolicy is Ignore", "policy", p.name,
			"pod", klog.KObj(live.task.Pod), "node", live.node, "reason", brief.Part(err.Error()))
		return nil
	case err != nil:
		return fmt.Errorf("policy %q cannot be evaluated for pod %s/%s on node %s: %w",
			p.name, live.task.Namespace, live.task.Name, live.node, err)
	case !allowed:
		return p.refusal(live, p.reason(ctx, live))
	}
	return nil
}

// evaluate reports whether the policy allows binding the task. It also returns true if the policy does not apply to the
// task.
func (p *policy) evaluate(ctx context.Context, live *view) (bool, error) {
	if p.matchCondition != nil {
		matches, err := evaluate[bool](ctx, p.matchCondition, live)
		if err != nil {
			return false, fmt.Errorf("matchCondition: %w", err)
		}
		if !matches {
			return true, nil
		}
	}
	allowed, err := evaluate[bool](ctx, p.expression, live)
	if err != nil {
		return false, fmt.Errorf("expression: %w", err)
	}
	return allowed, nil
}

// reason returns why the policy refuses the task: the result of the message expression, or else the message, or else
// the text of the expression.
func (p *policy) reason(ctx context.Context, live *view) string {
	if p.messageExpression != nil {
		text, err := evaluate[string](ctx, p.messageExpression, live)
		if text = strings.TrimSpace(text); err == nil && text != "" {
			return text
		}
		klog.FromContext(ctx).V(2).Info("A policy's messageExpression gave no message", "policy", p.name, "err", err)
	}
	if p.message != "" {
		return p.message
	}
	return "expression is false: " + strings.TrimSpace(p.expression.text)
}

func (p *policy) refusal(live *view, reason string) error {
	return fmt.Errorf("policy %q refuses pod %s/%s on node %s: %s",
		p.name, live.task.Namespace, live.task.Name, live.node, brief.Cut(reason, maxMessage))
}

// evaluate reads the variables that the expression uses, and evaluates the expression. It ends early if the context
// ends or the cost limit is reached.
func evaluate[T bool | string](ctx context.Context, x *expression, live *view) (T, error) {
	var zero T
	if err := live.read(ctx, x.variables); err != nil {
		return zero, err
	}
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	if live.spent >= maxCheckCost {
		return zero, fmt.Errorf("the check has spent the %d cost units that all policies together may spend on one task", maxCheckCost)
	}
	out, details, err := x.program.ContextEval(ctx, live.objects)
	live.spend(x, details)
	if err != nil {
		return zero, err
	}
	value, ok := out.Value().(T)
	if !ok {
		return zero, fmt.Errorf("the result is of type %s, want %T", out.Type().TypeName(), zero)
	}
	return value, nil
}
