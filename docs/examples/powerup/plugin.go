// SPDX-License-Identifier: Apache-2.0

package powerup

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	// RackLabel on a node names its rack. A node without one has no limit.
	RackLabel = "powerup.example.com/rack"
	// WattsAnnotation on a pod says what it draws while it starts.
	WattsAnnotation = "powerup.example.com/watts"
	// leaseSeconds is how long a Lease counts that nobody deletes.
	leaseSeconds int32 = 300
)

const stateKey fwk.StateKey = "PowerUp"

// claim is what the plugin knows of a pod in its CycleState.
type claim struct {
	watts int
	// rack is where it is reserved; empty for nowhere.
	rack string
	// announced reports whether a Lease may exist.
	announced bool
}

// Clone implements fwk.StateData.
func (c *claim) Clone() fwk.StateData {
	clone := *c
	return &clone
}

// claimOf returns nil for a pod that draws nothing.
func claimOf(state fwk.CycleState) *claim {
	of, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	return of.(*claim)
}

// PowerUp is the kube-scheduler plugin.
type PowerUp struct {
	client    kubernetes.Interface
	snapshot  func() k8sframework.SharedLister
	namespace string
	watts     int
	starting  *budget
}

var (
	_ k8sframework.PreFilterPlugin = (*PowerUp)(nil)
	_ k8sframework.FilterPlugin    = (*PowerUp)(nil)
	_ k8sframework.ScorePlugin     = (*PowerUp)(nil)
	_ k8sframework.ReservePlugin   = (*PowerUp)(nil)
	_ k8sframework.PreBindPlugin   = (*PowerUp)(nil)
	_ k8sframework.PostBindPlugin  = (*PowerUp)(nil)
)

// Name implements k8sframework.Plugin.
func (p *PowerUp) Name() string { return "PowerUp" }

// PreFilter reads what the pod draws.
func (p *PowerUp) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*k8sframework.PreFilterResult, *fwk.Status) {
	value, says := pod.Annotations[WattsAnnotation]
	if !says {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	watts, err := strconv.Atoi(value)
	if err != nil || watts < 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("annotation %s is %.40q, and must be a number of watts", WattsAnnotation, value))
	}
	state.Write(stateKey, &claim{watts: watts})
	return nil, nil
}

// PreFilterExtensions implements k8sframework.PreFilterPlugin.
func (p *PowerUp) PreFilterExtensions() k8sframework.PreFilterExtensions { return nil }

// Filter refuses nodes of racks that have too little left.
func (p *PowerUp) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, rack := claimOf(state), node.Node().Labels[RackLabel]
	if c != nil && rack != "" && p.starting.free(rack, p.watts) < c.watts {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are in a rack with too little power for another pod to start")
	}
	return nil
}

// Score prefers racks that have much left.
func (p *PowerUp) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	rack := node.Node().Labels[RackLabel]
	if claimOf(state) == nil || rack == "" || p.watts == 0 {
		return 0, nil
	}
	return int64(max(0, p.starting.free(rack, p.watts)) * 100 / p.watts), nil
}

// ScoreExtensions implements k8sframework.ScorePlugin.
func (p *PowerUp) ScoreExtensions() k8sframework.ScoreExtensions { return nil }

// Reserve takes what the pod draws from the rack. It runs for every node that a gang is tried on, so it asks nobody.
func (p *PowerUp) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c := claimOf(state)
	if c == nil {
		return nil
	}
	rack, err := p.rackOf(nodeName)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if rack == "" {
		return nil
	}
	if !p.starting.take(rack, p.watts, pod.UID, c.watts) {
		return fwk.NewStatus(fwk.Unschedulable, "rack "+rack+" has too little power left")
	}
	c.rack = rack
	return nil
}

// rackOf looks at the nodes of the session, which only what a session asks may do.
func (p *PowerUp) rackOf(nodeName string) (string, error) {
	info, err := p.snapshot().NodeInfos().Get(nodeName)
	if err != nil {
		return "", err
	}
	return info.Node().Labels[RackLabel], nil
}

// Unreserve undoes Reserve, and PreBind if it was asked.
func (p *PowerUp) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	p.end(ctx, state, pod)
}

// PreBindPreFlight implements k8sframework.PreBindPlugin.
func (p *PowerUp) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	if c := claimOf(state); c == nil || c.rack == "" {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// PreBind announces to the rack's agent which pod is about to start.
func (p *PowerUp) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	c, holder, seconds := claimOf(state), pod.Namespace+"/"+pod.Name, leaseSeconds
	c.announced = true // from here on there may be one
	_, err := p.client.CoordinationV1().Leases(p.namespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: leaseName(pod), Labels: map[string]string{RackLabel: c.rack}, Annotations: map[string]string{WattsAnnotation: strconv.Itoa(c.watts)},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("announcing the pod to rack %s: %w", c.rack, err))
	}
	return nil
}

// PostBind ends what is reserved for the pod: it has started as far as the scheduler is concerned.
func (p *PowerUp) PostBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	p.end(ctx, state, pod)
}

// end may be asked again. A Lease that cannot be deleted runs out: neither Unreserve nor PostBind can say that they failed.
func (p *PowerUp) end(ctx context.Context, state fwk.CycleState, pod *v1.Pod) {
	c := claimOf(state)
	if c == nil {
		return
	}
	if c.announced {
		err := p.client.CoordinationV1().Leases(p.namespace).Delete(ctx, leaseName(pod), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, "A Lease stays until it runs out", "pod", klog.KObj(pod))
		}
	}
	p.starting.release(c.rack, pod.UID)
	c.rack, c.announced = "", false
}

func leaseName(pod *v1.Pod) string { return "powerup-" + string(pod.UID) }

// Recover ends the Leases of a former leader: it runs before the first session, when nothing is being started.
func (p *PowerUp) Recover(ctx context.Context) error {
	leases := p.client.CoordinationV1().Leases(p.namespace)
	list, err := leases.List(ctx, metav1.ListOptions{LabelSelector: RackLabel})
	if err != nil {
		return fmt.Errorf("listing Leases: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if err := leases.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
