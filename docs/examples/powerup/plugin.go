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
	// RackLabel on a node names its rack. Nodes without the label have no limit.
	RackLabel = "powerup.example.com/rack"
	// WattsAnnotation on a pod is the power that it draws while it starts, in watts.
	WattsAnnotation = "powerup.example.com/watts"
	// leaseSeconds is the lifetime of a Lease that is not deleted.
	leaseSeconds int32 = 300
)

const stateKey fwk.StateKey = "PowerUp"

// claim is the plugin's state of a pod, kept in its CycleState.
type claim struct {
	watts int
	// rack is the rack with the pod's reservation. It is empty if nothing is reserved.
	rack string
	// announced reports whether the pod's Lease may exist.
	announced bool
}

// Clone implements fwk.StateData.
func (c *claim) Clone() fwk.StateData {
	clone := *c
	return &clone
}

// claimOf returns the pod's claim, or nil for a pod without WattsAnnotation.
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

// PreFilter reads the pod's WattsAnnotation.
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

// Filter refuses nodes of racks with too little free power.
func (p *PowerUp) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, rack := claimOf(state), node.Node().Labels[RackLabel]
	if c != nil && rack != "" && p.starting.free(rack, p.watts) < c.watts {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are in a rack with too little power for another pod to start")
	}
	return nil
}

// Score prefers racks with more free power.
func (p *PowerUp) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	rack := node.Node().Labels[RackLabel]
	if claimOf(state) == nil || rack == "" || p.watts == 0 {
		return 0, nil
	}
	return int64(max(0, p.starting.free(rack, p.watts)) * 100 / p.watts), nil
}

// ScoreExtensions implements k8sframework.ScorePlugin.
func (p *PowerUp) ScoreExtensions() k8sframework.ScoreExtensions { return nil }

// Reserve reserves the pod's power in the rack. It runs in every trial of a gang, so it makes no API call.
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

// rackOf reads the session's nodes. Call it only during a session.
func (p *PowerUp) rackOf(nodeName string) (string, error) {
	info, err := p.snapshot().NodeInfos().Get(nodeName)
	if err != nil {
		return "", err
	}
	return info.Node().Labels[RackLabel], nil
}

// Unreserve undoes Reserve, and PreBind if it was called.
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

// PreBind creates a Lease that notifies the rack's agent of the pod.
func (p *PowerUp) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	c, holder, seconds := claimOf(state), pod.Namespace+"/"+pod.Name, leaseSeconds
	c.announced = true // the Lease may exist even if Create returns an error
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

// PostBind releases the pod's reservation. The scheduler counts a bound pod as started.
func (p *PowerUp) PostBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	p.end(ctx, state, pod)
}

// end releases the reservation and deletes the Lease. It may be called again. If the Lease cannot be deleted, it expires:
// Unreserve and PostBind cannot report a failure.
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

// Recover deletes the Leases of a former leader. It runs before the first session, when no gang is being bound.
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
