// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// RequestOptions control how ParseRequest parses the requests of pods.
type RequestOptions struct {
	// TemplateResources are resource names. A request for a share of a GPU that uses one of them must match a
	// shared-resource template; nil for DefaultTemplateResources.
	TemplateResources []v1.ResourceName
}

// DefaultTemplateResources is the value of RequestOptions.TemplateResources that Koordinator uses by default.
var DefaultTemplateResources = []v1.ResourceName{resourceNames[NPUCore]}

// ParseRequest returns the pod's request for devices; nil if the pod requests none. An error names the pod and all
// invalid parts of its request. No node can serve a pod with an invalid request.
func ParseRequest(pod *v1.Pod, o RequestOptions) (*Request, error) {
	asked, err := readAsked(pod)
	if err == nil && asked.form == 0 {
		return nil, nil
	}
	r := &Request{isolation: pod.Labels[v1alpha1.GPUIsolationProviderLabel]}
	errs := []error{err}
	hints, err := parseHints(pod)
	errs = append(errs, err)
	if err == nil {
		errs = append(errs, r.setWants(&asked, hints))
	}
	errs = append(errs, r.parseJoint(pod), r.parsePartition(pod))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("pod %s: %w", klog.KObj(pod), err)
	}
	r.templated = asked.values[byShared] > 0 && slices.ContainsFunc(o.templateResources(), func(name v1.ResourceName) bool {
		bit := slices.Index(names[:], name)
		return bit >= 0 && asked.form&(1<<bit) != 0
	})
	r.vendorOnly = slices.Contains(vendorForms, asked.form) && len(hints) == 0 && len(r.joint) == 0 && !r.partition.asked
	if at := slices.Index(vendorForms, asked.form&gpuNames); at >= 0 {
		r.vendor = names[at]
	}
	r.key = r.makeKey()
	return r, nil
}

func (o RequestOptions) templateResources() []v1.ResourceName {
	if o.TemplateResources == nil {
		return DefaultTemplateResources
	}
	return o.TemplateResources
}

// setWants sets the request for each type of devices. It computes the request from the requested amounts and the hints.
func (r *Request) setWants(a *asked, hints map[Type]*hint) error {
	var errs []error
	for t := range r.of {
		h := hints[Type(t)]
		if h == nil {
			h = &hint{}
		}
		var err error
		switch Type(t) {
		case GPU:
			r.of[t], err = a.normalizeGPUs()
		case RDMA:
			r.of[t], err = a.normalizeOthers(byRDMA, RDMAShare, h.asCount)
		case FPGA:
			r.of[t], err = a.normalizeOthers(byFPGA, FPGAShare, h.asCount)
		}
		errs = append(errs, err)
		want := &r.of[t]
		if !want.asked() {
			continue
		}
		want.selector, want.vfs, want.scope, want.exclusive = h.selector, h.vfs, h.scope, h.exclusive
		if h.all {
			want.all, want.count = true, 0
		}
		if h.asCount && h.exclusive == DeviceLevel {
			want.amounts[RDMAShare] *= 100
			want.amounts[FPGAShare] *= 100
		}
		if want.scope == ScopeDevice && want.count > 1 {
			errs = append(errs, fmt.Errorf("annotation %s: %s: requiredTopologyScope is Device, but %d devices are requested; must be PCIe, NUMANode or Node",
				v1alpha1.DeviceAllocateHintAnnotation, Type(t), want.count))
		}
	}
	return errors.Join(errs...)
}

// hint holds a pod's restrictions on its devices of one type, from the annotation device-allocate-hint.
type hint struct {
	selector, vfs labels.Selector
	all, asCount  bool
	scope         Scope
	exclusive     Exclusivity
}

// wireHint is the JSON form of a hint in the annotation device-allocate-hint.
type wireHint struct {
	Selector              *metav1.LabelSelector `json:"selector"`
	VFSelector            *metav1.LabelSelector `json:"vfSelector"`
	AllocateStrategy      string                `json:"allocateStrategy"`
	RequiredTopologyScope string                `json:"requiredTopologyScope"`
	ExclusivePolicy       string                `json:"exclusivePolicy"`
}

func parseHints(pod *v1.Pod) (map[Type]*hint, error) {
	wire := map[string]*wireHint{}
	if err := parseAnnotation(pod, v1alpha1.DeviceAllocateHintAnnotation, `{"rdma":{"allocateStrategy":"ApplyForAll"}}`, &wire); err != nil {
		return nil, err
	}
	hints := make(map[Type]*hint, len(wire))
	var errs []error
	for name, w := range wire {
		t, ok := TypeOf(name)
		if !ok {
			errs = append(errs, fmt.Errorf("unknown type %.32q, must be gpu, rdma or fpga", name))
			continue
		}
		if w == nil {
			continue
		}
		h, err := w.parse(t)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t, err))
		}
		hints[t] = h
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("annotation %s: %w", v1alpha1.DeviceAllocateHintAnnotation, joinErrors(errs))
	}
	return hints, nil
}

func (w *wireHint) parse(t Type) (*hint, error) {
	h := &hint{}
	var errs [5]error
	h.selector, errs[0] = parseSelector("selector", w.Selector)
	h.vfs, errs[1] = parseSelector("vfSelector", w.VFSelector)
	switch {
	case w.AllocateStrategy == "":
	case t == GPU:
		errs[2] = fmt.Errorf("allocateStrategy is %.32q, must be empty for GPUs: the pod's resources say how many", w.AllocateStrategy)
	case w.AllocateStrategy == "ApplyForAll":
		h.all = true
	case w.AllocateStrategy == "RequestsAsCount":
		h.asCount = true
	default:
		errs[2] = fmt.Errorf("allocateStrategy is %.32q, must be ApplyForAll, RequestsAsCount or empty", w.AllocateStrategy)
	}
	if at := slices.Index(scopeNames[:], w.RequiredTopologyScope); at >= 0 {
		h.scope = Scope(at)
	} else {
		errs[3] = fmt.Errorf("requiredTopologyScope is %.32q, must be Device, PCIe, NUMANode, Node or empty", w.RequiredTopologyScope)
	}
	if at := slices.Index(exclusivityNames[:], w.ExclusivePolicy); at >= 0 {
		h.exclusive = Exclusivity(at)
	} else {
		errs[4] = fmt.Errorf("exclusivePolicy is %.32q, must be DeviceLevel, PCIeLevel or empty", w.ExclusivePolicy)
	}
	return h, errors.Join(errs[:]...)
}

// Limits on the size of a selector in the annotation device-allocate-hint, because a selector is applied to each device
// of each node. The limits are far beyond any real use.
const (
	maxRequirements   = 64
	maxSelectorValues = 256
)

// parseSelector converts the selector s, which the named field of a hint contains; nil for none. An empty selector
// matches everything.
func parseSelector(field string, s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return nil, nil
	}
	if n := len(s.MatchLabels) + len(s.MatchExpressions); n > maxRequirements {
		return nil, fmt.Errorf("%s: has %d requirements, must be at most %d", field, n, maxRequirements)
	}
	values := 0
	for i := range s.MatchExpressions {
		values += len(s.MatchExpressions[i].Values)
	}
	if values > maxSelectorValues {
		return nil, fmt.Errorf("%s: has %d values, must be at most %d", field, values, maxSelectorValues)
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, clip(err))
	}
	return selector, nil
}

func (r *Request) parseJoint(pod *v1.Pod) error {
	var wire struct {
		DeviceTypes   []string `json:"deviceTypes"`
		RequiredScope string   `json:"requiredScope"`
	}
	if err := parseAnnotation(pod, v1alpha1.DeviceJointAllocateAnnotation, `{"deviceTypes":["gpu","rdma"]}`, &wire); err != nil {
		return err
	}
	for _, name := range wire.DeviceTypes {
		t, ok := TypeOf(name)
		if !ok {
			return fmt.Errorf("annotation %s: deviceTypes has %.32q, must be of gpu, rdma and fpga", v1alpha1.DeviceJointAllocateAnnotation, name)
		}
		if r.of[t].asked() && !slices.Contains(r.joint, t) {
			r.joint = append(r.joint, t)
		}
	}
	switch wire.RequiredScope {
	case "", "SamePCIe":
	default:
		return fmt.Errorf("annotation %s: requiredScope is %.32q, must be SamePCIe or empty", v1alpha1.DeviceJointAllocateAnnotation, wire.RequiredScope)
	}
	if len(r.joint) < 2 {
		r.joint = nil
	}
	r.samePCIe = len(r.joint) > 0 && wire.RequiredScope == "SamePCIe"
	return nil
}

func (r *Request) parsePartition(pod *v1.Pod) error {
	if _, ok := pod.Annotations[v1alpha1.GPUPartitionSpecAnnotation]; !ok {
		return nil
	}
	var wire struct {
		AllocatePolicy   string             `json:"allocatePolicy"`
		RingBusBandwidth *resource.Quantity `json:"ringBusBandwidth"`
	}
	if err := parseAnnotation(pod, v1alpha1.GPUPartitionSpecAnnotation, `{"allocatePolicy":"Restricted"}`, &wire); err != nil {
		return err
	}
	r.partition.asked = r.of[GPU].asked()
	switch wire.AllocatePolicy {
	case "", "BestEffort":
	case "Restricted":
		r.partition.restricted = r.partition.asked
	default:
		return fmt.Errorf("annotation %s: allocatePolicy is %.32q, must be Restricted, BestEffort or empty", v1alpha1.GPUPartitionSpecAnnotation, wire.AllocatePolicy)
	}
	if q := wire.RingBusBandwidth; q != nil && r.partition.asked {
		value, ok := wholeNumber(*q)
		if !ok {
			return fmt.Errorf("annotation %s: ringBusBandwidth is %.64s, must be a whole number of bytes per second", v1alpha1.GPUPartitionSpecAnnotation, q.String())
		}
		r.partition.bandwidth = value
	}
	return nil
}

// parseAnnotation parses the JSON value of the named annotation into the variable at into. It leaves the variable
// unchanged if the pod does not have the annotation. example is a valid value, for the error.
func parseAnnotation(pod *v1.Pod, name, example string, into any) error {
	text, ok := pod.Annotations[name]
	if !ok || text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("annotation %s: %w", name, parseError(text, err, "a JSON object such as "+example))
	}
	return nil
}
