// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"errors"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// points are the extension points that a plugin implements; a field is nil if the plugin does not implement it.
type points struct {
	preEnqueue k8sframework.PreEnqueuePlugin
	preFilter  k8sframework.PreFilterPlugin
	filter     k8sframework.FilterPlugin
	preScore   k8sframework.PreScorePlugin
	score      k8sframework.ScorePlugin
	reserve    k8sframework.ReservePlugin
	preBind    k8sframework.PreBindPlugin
	postBind   k8sframework.PostBindPlugin
}

func pointsOf(plugin k8sframework.Plugin) (points, error) {
	var p points
	if plugin == nil {
		return p, errors.New("the factory returned no plugin")
	}
	rejected := ""
	switch plugin.(type) {
	case k8sframework.PermitPlugin:
		rejected = "Permit"
	case k8sframework.BindPlugin:
		rejected = "Bind"
	case k8sframework.QueueSortPlugin:
		rejected = "QueueSort"
	}
	if rejected != "" {
		return p, fmt.Errorf("kube-scheduler's plugin %s implements %s, which is not called, because gangs are decided as a whole; use a plugin without it", plugin.Name(), rejected)
	}
	p.preEnqueue, _ = plugin.(k8sframework.PreEnqueuePlugin)
	p.preFilter, _ = plugin.(k8sframework.PreFilterPlugin)
	p.filter, _ = plugin.(k8sframework.FilterPlugin)
	p.preScore, _ = plugin.(k8sframework.PreScorePlugin)
	p.score, _ = plugin.(k8sframework.ScorePlugin)
	p.reserve, _ = plugin.(k8sframework.ReservePlugin)
	p.preBind, _ = plugin.(k8sframework.PreBindPlugin)
	p.postBind, _ = plugin.(k8sframework.PostBindPlugin)
	if p == (points{}) {
		return p, fmt.Errorf("kube-scheduler's plugin %s implements no supported extension point, must implement one of PreEnqueue, PreFilter, Filter, PreScore, Score, Reserve, PreBind, PostBind", plugin.Name())
	}
	return p, nil
}

// statusCodes maps the codes of kube-scheduler's statuses that refuse a node to upstream's codes. If a Filter returns
// any other code, the code counts as an error.
var statusCodes = map[fwk.Code]int{
	fwk.Unschedulable:                api.Unschedulable,
	fwk.UnschedulableAndUnresolvable: api.UnschedulableAndUnresolvable,
	fwk.Pending:                      api.UnschedulableAndUnresolvable,
}

// refusal converts the status of a Filter to a refusal of the node; nil if the status accepts the node.
func (p *plugin) refusal(status *fwk.Status) *api.Status {
	if status.IsSuccess() {
		return nil
	}
	code, known := statusCodes[status.Code()]
	if !known {
		code = api.Error
	}
	return &api.Status{Code: code, Reason: p.message(status), Plugin: p.name}
}

func (p *plugin) message(status *fwk.Status) string {
	if message := status.Message(); message != "" {
		return brief.Part(message)
	}
	return fmt.Sprintf("refused by plugin %s (%s)", p.name, status.Code())
}

// failure converts the plugin's status to an error; nil if the status is success.
func (p *plugin) failure(status *fwk.Status) error {
	if status.IsSuccess() {
		return nil
	}
	if err := status.AsError(); err != nil && err.Error() != "" {
		return err
	}
	return errors.New(p.message(status))
}
