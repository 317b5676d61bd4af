// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	upstream "volcano.sh/volcano/pkg/scheduler/plugins/deviceshare"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = upstream.PluginName

// Spec declares the plugin. Plugins of the same scheduler that are built from one Spec share their data about devices.
func Spec() framework.PluginSpec {
	known := &framework.Kept[*clusterDevices]{}
	return framework.PluginSpec{
		Name:              Name,
		Doc:               "Allocates GPUs, NICs and FPGAs to pods by the Device objects of nodes, with their topology, and shares devices by upstream's backends.",
		Arguments:         arguments(),
		ExplainsShortages: countedNames,
		Load: func(args framework.Arguments) (framework.Builder, error) {
			settings, err := load(args)
			return func(h framework.Handle) (framework.Plugin, error) {
				devices, err := known.Of(h, watchDevices)
				if err != nil {
					return nil, err
				}
				templates, err := devices.templatesOf(h, settings.templates)
				if err != nil {
					return nil, err
				}
				inventories := devices.inventoriesOf(allocator.InventoryOptions{AffinityKey: settings.nicTopology})
				return newPlugin(settings, inventories, templates), nil
			}, err
		},
		Extends:     true,
		LeavesTasks: true,
	}
}

// podKeys are the labels and annotations of pods that affect which devices the pods get.
var podKeys = []string{
	schedulingv1alpha1.DeviceAllocateHintAnnotation, schedulingv1alpha1.DeviceJointAllocateAnnotation,
	schedulingv1alpha1.GPUPartitionSpecAnnotation, schedulingv1alpha1.GPUIsolationProviderLabel, v1beta1.NumaPolicyKey,
}

type plugin struct {
	*common
	// session is the plugin's state in the open session; nil between sessions.
	session *session
}

// common is what the plugin and its sessions use: the settings, the inventories and templates that outlive them, and
// caches.
type common struct {
	settings
	backends
	inventories    *inventories
	templates      *templates
	requestOptions allocator.RequestOptions
	ledgers        *ledgers
	verdicts       *verdicts
	supplies       supplies
	// requests caches the parsed requests of pods in the session that was opened last.
	requests map[types.UID]*request
}

var (
	_ framework.SessionScoped = (*plugin)(nil)
	_ framework.PreBinder     = (*plugin)(nil)
	_ framework.Reserver      = (*session)(nil)
	_ framework.Signer        = (*session)(nil)
)

func newPlugin(settings settings, inventories *inventories, templates *templates) *plugin {
	api.IgnoredDevicesList.Append(allocator.UncountedNames()...)
	return &plugin{common: &common{
		settings: settings, backends: backends{policy: settings.policy, weight: settings.backendWeight},
		inventories: inventories, templates: templates, requestOptions: allocator.RequestOptions{TemplateResources: settings.templates.MatchedResources},
		ledgers: newLedgers(), verdicts: newVerdicts(),
	}}
}

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// OnSessionOpen implements framework.Plugin.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	p.backends.open(ssn)
	s := newSession(p.common, ssn)
	p.session = s
	ssn.AddPrePredicateFn(Name, s.prePredicate)
	ssn.AddPredicateFn(Name, s.predicate)
	ssn.AddSimulatePredicateFn(Name, func(_ context.Context, _ fwk.CycleState, task *api.TaskInfo, node *api.NodeInfo) error {
		return s.predicate(task, node)
	})
	ssn.AddNodeOrderFn(Name, s.nodeOrder)
	ssn.AddBatchNodeOrderFn(Name, p.batchScore)
	ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: s.changed, DeallocateFunc: s.changed})
	s.queues.open()
}

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) { p.session = nil }

// InSession implements framework.SessionScoped.
func (p *plugin) InSession() any { return p.session }

// noDevices is the value of the annotation device-allocated for a pod without devices.
const noDevices = "{}"

// allocated returns the value of the pod's annotation device-allocated; empty if the pod does not have it.
func allocated(pod *v1.Pod) string {
	return pod.Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]
}
