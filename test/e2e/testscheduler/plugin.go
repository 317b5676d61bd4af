// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

// Names of the plugins' arguments.
const (
	controlArgument = "control"
	percentArgument = "failPercent"
	seedArgument    = "seed"
	timeoutArgument = "timeout"
)

// orderPoll is how often a hanging step checks whether its order still exists.
const orderPoll = 20 * time.Millisecond

// errOrdered is the error of a step that was ordered to fail. It is part of the messages for users.
var errOrdered = errors.New("told to fail")

func spec(name string) framework.PluginSpec {
	return framework.PluginSpec{
		Name: name,
		Doc:  "Leaves a trace of each task it prepared.",
		Arguments: []framework.Argument{
			{Name: controlArgument, Type: framework.String, Doc: "Directory of orders and of the journal."},
			{Name: percentArgument, Type: framework.Int, Default: "0", Doc: "Share of steps and rollbacks that fail, in percent, while ordered to."},
			{Name: seedArgument, Type: framework.Int, Default: "0", Doc: "Seed of that choice."},
			{Name: timeoutArgument, Type: framework.Duration, Default: "30s", Doc: "Deadline of a step."},
		},
		Load: func(args framework.Arguments) (framework.Builder, error) {
			dir, _ := args[controlArgument].(string)
			percent, _ := args[percentArgument].(int)
			seed, _ := args[seedArgument].(int)
			timeout := framework.DefaultStepTimeout
			if text, ok := args[timeoutArgument].(string); ok {
				parsed, err := time.ParseDuration(text)
				if err != nil {
					return nil, err
				}
				timeout = parsed
			}
			return func(h framework.Handle) (framework.Plugin, error) {
				return &plugin{
					name: name, kube: h.KubeClient(), dir: control.Dir(dir), timeout: timeout, percent: percent,
					random: rand.New(rand.NewPCG(uint64(seed), uint64(seed))),
				}, nil
			}, nil
		},
	}
}

// plugin creates a ConfigMap for each pod that it prepared, and stages an annotation.
type plugin struct {
	framework.NoFilter

	name    string
	kube    kubernetes.Interface
	dir     control.Dir
	timeout time.Duration
	percent int

	mu     sync.Mutex
	random *rand.Rand
}

var (
	_ framework.PreBindOptioner = (*plugin)(nil)
	_ framework.Recoverer       = (*plugin)(nil)
)

func (p *plugin) Name() string { return p.name }

func (p *plugin) OnSessionOpen(*framework.Session) {}

// PreBindOptions implements framework.PreBindOptioner.
func (p *plugin) PreBindOptions() []framework.PreBindOption {
	return []framework.PreBindOption{framework.WithTimeout(p.timeout)}
}

func (p *plugin) OnSessionClose(*framework.Session) {}

// PreBind leaves the trace and then follows its orders.
func (p *plugin) PreBind(ctx context.Context, task *api.TaskInfo, node string) error {
	return p.recorded(control.PreBind, task.Name, node, func() error {
		if err := p.trace(ctx, task.Pod, node); err != nil {
			return err
		}
		if task.Pod.Annotations == nil {
			task.Pod.Annotations = map[string]string{}
		}
		task.Pod.Annotations[control.StagedPrefix+p.name] = node
		if p.dir.Ordered(p.name, control.Panic, task.Name, node) {
			panic(errOrdered)
		}
		if p.dir.Ordered(p.name, control.Fail, task.Name, node) || p.unlucky() {
			return errOrdered
		}
		return wait.PollUntilContextCancel(ctx, orderPoll, true, func(context.Context) (bool, error) {
			return !p.dir.Ordered(p.name, control.Hang, task.Name, node), nil
		})
	})
}

// Rollback removes the trace.
func (p *plugin) Rollback(ctx context.Context, task *api.TaskInfo, node string) error {
	return p.recorded(control.Rollback, task.Name, node, func() error {
		if p.dir.Ordered(p.name, control.FailRollback, task.Name, node) || p.unlucky() {
			return errOrdered
		}
		err := p.kube.CoreV1().ConfigMaps(task.Namespace).Delete(ctx, p.traceOf(task.Name), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// Recover removes the traces of pods that are not on the node of their trace.
func (p *plugin) Recover(ctx context.Context) error {
	return p.recorded(control.Recover, "", "", func() error {
		traces, err := p.kube.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			LabelSelector: control.PluginLabel + "=" + p.name,
		})
		if err != nil {
			return err
		}
		var errs []error
		for i := range traces.Items {
			errs = append(errs, p.recoverTrace(ctx, &traces.Items[i]))
		}
		return errors.Join(errs...)
	})
}

func (p *plugin) recoverTrace(ctx context.Context, trace *corev1.ConfigMap) error {
	pod, err := p.kube.CoreV1().Pods(trace.Namespace).Get(ctx, trace.Data[control.PodKey], metav1.GetOptions{})
	if err == nil && string(pod.UID) == trace.Data[control.UIDKey] && pod.Spec.NodeName == trace.Data[control.NodeKey] {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err = p.kube.CoreV1().ConfigMaps(trace.Namespace).Delete(ctx, trace.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(trace.UID)),
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// trace creates or updates the pod's ConfigMap with this node.
func (p *plugin) trace(ctx context.Context, pod *corev1.Pod, node string) error {
	trace := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.traceOf(pod.Name), Namespace: pod.Namespace, Labels: map[string]string{control.PluginLabel: p.name},
		},
		Data: map[string]string{control.PodKey: pod.Name, control.UIDKey: string(pod.UID), control.NodeKey: node},
	}
	_, err := p.kube.CoreV1().ConfigMaps(pod.Namespace).Create(ctx, trace, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = p.kube.CoreV1().ConfigMaps(pod.Namespace).Update(ctx, trace, metav1.UpdateOptions{})
	}
	return err
}

func (p *plugin) traceOf(pod string) string { return p.name + "." + pod }

func (p *plugin) unlucky() bool {
	if p.percent == 0 || !p.dir.Ordered(p.name, control.Random) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.IntN(100) < p.percent
}

// recorded writes the begin and the end of the call into the journal. A panic is an end too.
func (p *plugin) recorded(call control.Call, pod, node string, do func() error) (err error) {
	entry := control.Entry{Plugin: p.name, Call: call, Pod: pod, Node: node, Phase: control.Begin}
	if err := p.dir.Record(entry); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	entry.Phase = control.Error
	defer func() {
		err = errors.Join(err, p.dir.Record(entry))
	}()
	if err := do(); err != nil {
		return err
	}
	entry.Phase = control.OK
	return nil
}
