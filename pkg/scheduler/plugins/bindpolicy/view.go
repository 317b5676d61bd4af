// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// goneError reports that the pod or the node no longer exists. It refuses the task whatever the failure policy is,
// because the pod cannot be bound to the node.
type goneError struct{ finding string }

func (e *goneError) Error() string { return e.finding }

func gone(format string, args ...any) error { return &goneError{fmt.Sprintf(format, args...)} }

// object is an API object as the API server serializes it. Several readers share it, so it must not be changed.
type object = map[string]any

// reader reads the current objects from the API server.
type reader struct {
	kube   kubernetes.Interface
	vc     vcclient.Interface
	shared sharedReads
}

func newReader(kube kubernetes.Interface, vc vcclient.Interface) *reader {
	return &reader{kube: kube, vc: vc}
}

// view gives one pre-bind step access to objects of the API server. Each object is read at most once, after the step
// has begun, and only if an evaluated expression uses it. A view is not safe for concurrent use.
type view struct {
	reader *reader
	task   *api.TaskInfo
	node   string
	// objects has the objects that were read, by variable. errs has the errors of variables whose objects could not be
	// read.
	objects map[string]any
	errs    map[string]error
	// spent is the total cost of all evaluations so far, in CEL cost units.
	spent uint64
}

func (r *reader) view(task *api.TaskInfo, node string) *view {
	return &view{reader: r, task: task, node: node, objects: map[string]any{}, errs: map[string]error{}}
}

// spend adds the cost of one evaluation of the expression to v.spent.
func (v *view) spend(x *expression, details *cel.EvalDetails) {
	cost := x.costLimit
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	v.spent += cost
}

// read reads the objects of the variables, so that an expression can use them. Objects that were not read before are
// read in parallel. read returns the first error in the order of the variables. A goneError, which means that the pod
// can no longer be bound to the node, comes before all other errors.
func (v *view) read(ctx context.Context, variables []string) error {
	type result struct {
		object object
		err    error
	}
	results := make([]result, len(variables))
	var reads sync.WaitGroup
	for i, name := range variables {
		if v.objects[name] == nil && v.errs[name] == nil {
			reads.Go(func() { results[i].object, results[i].err = v.get(ctx, name) })
		}
	}
	reads.Wait()
	var first error
	for i, name := range variables {
		switch {
		case results[i].err != nil:
			v.errs[name] = results[i].err
		case results[i].object != nil:
			v.objects[name] = results[i].object
		}
		err := v.errs[name]
		if first == nil || errors.As(err, new(*goneError)) {
			first = err
		}
	}
	return first
}

func (v *view) get(ctx context.Context, name string) (object, error) {
	switch name {
	case podVariable:
		return v.getPod(ctx)
	case nodeVariable:
		return v.getNode(ctx)
	default:
		return v.getPodGroup(ctx)
	}
}

func (v *view) getPod(ctx context.Context) (object, error) {
	pod, err := v.reader.kube.CoreV1().Pods(v.task.Namespace).Get(ctx, v.task.Name, metav1.GetOptions{})
	key := v.task.Namespace + "/" + v.task.Name
	switch {
	case apierrors.IsNotFound(err):
		return nil, gone("pod %s no longer exists", key)
	case err != nil:
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	case pod.UID != v.task.Pod.UID:
		return nil, gone("pod %s was deleted and recreated", key)
	case pod.DeletionTimestamp != nil:
		return nil, gone("pod %s is being deleted", key)
	}
	return serialized(pod, "v1", "Pod")
}

func (v *view) getNode(ctx context.Context) (object, error) {
	return v.reader.shared.get(ctx, "node/"+v.node, func(ctx context.Context) (object, error) {
		node, err := v.reader.kube.CoreV1().Nodes().Get(ctx, v.node, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, gone("node %s no longer exists", v.node)
		case err != nil:
			return nil, fmt.Errorf("reading node %s: %w", v.node, err)
		}
		return serialized(node, "v1", "Node")
	})
}

func (v *view) getPodGroup(ctx context.Context) (object, error) {
	namespace, name := v.task.Namespace, v.task.Pod.Annotations[schedulingv1beta1.KubeGroupNameAnnotationKey]
	if name == "" {
		return nil, fmt.Errorf("pod %s/%s has no PodGroup: it lacks the annotation %s",
			namespace, v.task.Name, schedulingv1beta1.KubeGroupNameAnnotationKey)
	}
	return v.reader.shared.get(ctx, "podgroup/"+namespace+"/"+name, func(ctx context.Context) (object, error) {
		group, err := v.reader.vc.SchedulingV1beta1().PodGroups(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading PodGroup %s/%s: %w", namespace, name, err)
		}
		return serialized(group, schedulingv1beta1.SchemeGroupVersion.String(), "PodGroup")
	})
}

// serialized returns the object's JSON form. It adds the apiVersion and the kind, because objects from a client have
// neither.
func serialized(from runtime.Object, apiVersion, kind string) (object, error) {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return nil, fmt.Errorf("serializing a live %s: %w", kind, err)
	}
	out["apiVersion"], out["kind"] = apiVersion, kind
	return out, nil
}
