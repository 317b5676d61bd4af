// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"math"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu"
	vnpu310p "volcano.sh/volcano/pkg/scheduler/plugins/deviceshare/devices/ascend/310p/vnpu"

	devicekinds "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/devices"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// backends forwards calls to upstream's ways of sharing devices (vGPU, gpushare, Ascend), which are called backends
// here. api.RegisteredDevices lists the enabled backends. The field Others of each node has, for each backend, the
// record of the backend's devices in use. Package devices keeps these records correct.
type backends struct {
	policy string
	// weight is the factor for the backends' scores of nodes; with 0 their scores do not count.
	weight int
	// asks reports whether the pod requests devices of an enabled backend.
	asks func(pod *v1.Pod) bool
}

// open prepares the backends for a session: the backend for MindCluster's NPUs reads the session's nodes.
func (b *backends) open(ssn *framework.Session) {
	b.asks = devicekinds.Asker()
	for _, node := range ssn.Nodes {
		if npus, ok := node.Others[vnpu.DeviceName].(*vnpu.NPUDevices); ok && npus != nil && vnpu.AscendMindClusterVNPUEnable {
			if err := vnpu310p.InitVNPUDevice(npus, ssn.Session, node); err != nil {
				klog.ErrorS(err, "Reading the NPUs of a node failed; pods that request them are not placed there", "node", klog.KRef("", node.Name))
			}
		}
	}
}

// asked returns the node's backends from which the pod requests devices, in the order in which the backends were
// enabled.
func asked(pod *v1.Pod, node *api.NodeInfo) []api.Devices {
	var found []api.Devices
	for _, name := range api.RegisteredDevices {
		if backend, ok := node.Others[name].(api.Devices); ok && !reflect.ValueOf(backend).IsNil() && backend.HasDeviceRequest(pod) {
			found = append(found, backend)
		}
	}
	return found
}

// predicate refuses a node if the pod requests devices of a backend that the node does not have free.
func (b backends) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	for _, backend := range asked(task.Pod, node) {
		code, reason, err := backend.FilterNode(task.Pod, b.policy)
		if err != nil || code != api.Success {
			return api.NewFitErrWithStatus(task, node, &api.Status{Code: code, Reason: reason, Plugin: Name})
		}
	}
	return nil
}

// score returns the weighted sum of the backends' scores for a node. It leaves out the backend for MindCluster's NPUs,
// which batchScore scores.
func (b backends) score(task *api.TaskInfo, node *api.NodeInfo) float64 {
	if b.weight == 0 {
		return 0
	}
	var sum float64
	for _, backend := range asked(task.Pod, node) {
		if _, batch := backend.(*vnpu.NPUDevices); !batch {
			sum += backend.ScoreNode(task.Pod, b.policy)
		}
	}
	return math.Round(sum) * float64(b.weight)
}

// batchScore returns the weighted scores of nodes by MindCluster's NPUs. The backend for these NPUs compares nodes with
// each other, so it needs all nodes in one call.
func (b backends) batchScore(task *api.TaskInfo, nodes []*api.NodeInfo) (map[string]float64, error) {
	scores := map[string]float64{}
	var having []*api.NodeInfo
	var npus []api.Devices
	for _, node := range nodes {
		if backend, ok := node.Others[vnpu.DeviceName].(*vnpu.NPUDevices); ok && backend != nil && b.weight != 0 {
			having, npus = append(having, node), append(npus, backend)
		}
	}
	if len(having) == 0 || !npus[0].HasDeviceRequest(task.Pod) {
		return scores, nil
	}
	given := vnpu310p.ScoreBatchNodes(task.Pod, b.policy, npus[0], npus)
	if len(given) != len(having) {
		return scores, nil
	}
	for i, node := range having {
		scores[node.Name] = given[i] * float64(b.weight)
	}
	return scores, nil
}
