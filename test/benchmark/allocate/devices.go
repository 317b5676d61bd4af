// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// Claims are created from the template and request devices of the class, which includes all devices of the nodes.
const (
	deviceClass    = "gpu"
	deviceTemplate = "gpu"
)

// deviceObjects returns the devices of the nodes, and a claim of one device for each pod.
func (s shape) deviceObjects() []runtime.Object {
	objects := []runtime.Object{schedulertesting.DeviceClass(deviceClass, fmt.Sprintf("device.driver == %q", schedulertesting.DeviceDriver))}
	var devices []string
	for i := range s.dra.devices {
		devices = append(devices, fmt.Sprintf("gpu-%d model=h100 uuid=%d", i, i))
	}
	for _, node := range s.nodeList() {
		objects = append(objects, schedulertesting.NodeDevices(node.Name, devices...))
	}
	objects = append(objects, s.sharedSlices()...)
	wanted := schedulertesting.DeviceRequest("gpu", deviceClass, 1)
	if s.dra.shared > 0 {
		wanted = schedulertesting.DeviceRequest("gpu", deviceClass, 1, fmt.Sprintf(`device.attributes[%q].model == "none"`, schedulertesting.DeviceDriver))
	}
	for gang := range s.gangs {
		for i := range s.gangSize {
			pod := schedulertesting.MakePod().Name(podName(gang, i)).Obj()
			objects = append(objects, schedulertesting.DeviceClaimFor(pod, deviceTemplate, wanted))
		}
	}
	return objects
}

// sharedDevices is the number of devices in a shared slice.
const sharedDevices = 64

func sharedName(i int) string { return fmt.Sprintf("shared-%03d", i) }

// sharedSlices returns slices that all nodes reach by a selector. Each is a separate pool.
func (s shape) sharedSlices() []runtime.Object {
	var devices []string
	for i := range sharedDevices {
		devices = append(devices, fmt.Sprintf("nic-%d model=nic", i))
	}
	var shared []runtime.Object
	for i := range s.dra.shared {
		slice := schedulertesting.NodeDevices(sharedName(i), devices...)
		slice.Name, slice.Spec.NodeName, slice.Spec.NodeSelector = sharedName(i), nil, everyNode()
		shared = append(shared, slice)
	}
	return shared
}

func everyNode() *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpExists}}}}}
}

// allSearched returns an error unless each node refused a waiting pod for its devices. A session that hits its search
// limit takes less time.
func (s shape) allSearched(ssn *sessiontest.Session) error {
	const refusal = "node(s) without a free device"
	for _, job := range ssn.Jobs {
		for uid := range job.TaskStatusIndex[api.Pending] {
			found := ""
			if errs := job.NodesFitErrors[uid]; errs != nil {
				found = errs.Error()
			}
			if !strings.Contains(found, fmt.Sprint(s.nodes)) || !strings.Contains(found, refusal) {
				return fmt.Errorf("pod %s: found %q, want %d nodes with %q", job.Tasks[uid].Name, found, s.nodes, refusal)
			}
		}
	}
	return nil
}

// changeSlice changes a device of a shared slice, and waits until informers have the change.
func changeSlice(cluster *sessiontest.Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := cluster.Handle().KubeClient().ResourceV1().ResourceSlices()
	slice, err := client.Get(ctx, sharedName(0), metav1.GetOptions{})
	if err != nil {
		return err
	}
	slice = slice.DeepCopy()
	slice.Spec.Pool.Generation++
	slice.Spec.Devices[0].Name += "-new"
	if _, err := client.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
		return err
	}
	lister := cluster.Handle().InformerFactory().Resource().V1().ResourceSlices().Lister()
	return wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		shown, err := lister.Get(slice.Name)
		return err == nil && shown.Spec.Pool.Generation == slice.Spec.Pool.Generation, err
	})
}

// withDevices adds the side's plugin for devices: dynamicresources for ours, or upstream's predicates.
func (s *side) withDevices(conf string) string {
	const predicates = "  - name: predicates\n"
	arguments := "    arguments:\n"
	conf = strings.Replace(conf, predicates+arguments, predicates, 1) // The arguments are added again below.
	conf = strings.Replace(conf, predicates, fmt.Sprintf("%s%s      predicate.DynamicResourceAllocationEnable: %v\n", predicates, arguments, s.Name == insession.Upstream), 1)
	if s.Name == insession.Ours {
		conf += "  - name: dynamicresources\n    arguments:\n      dynamicresources.searchSeconds: 60\n" // A loaded machine also searches for longer.
	}
	return conf
}
