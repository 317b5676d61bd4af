// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"

	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/metrics/source"
	npu "volcano.sh/volcano/third_party/mindcluster/common/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// initParams is the name of the entry under `configurations` that the NPU backend of deviceshare reads.
const initParams = npu.CMInitParamKey

// upstreamActions returns every action of upstream v1.14.1 (pkg/scheduler/actions), with the arguments that its source
// reads.
func upstreamActions() []ActionSpec {
	errorCache := framework.Argument{
		Name: conf.EnablePredicateErrCacheKey, Type: framework.Bool, Default: "true",
		Doc: "Whether a node that failed one task of a kind is skipped for the others of that kind in the same session.",
	}
	return []ActionSpec{
		{Name: "enqueue", Doc: "Admits pending jobs whose minimum has room."},
		{Name: "allocate", Doc: "Places the tasks of admitted jobs.", Arguments: []framework.Argument{errorCache}},
		{Name: "backfill", Doc: "Places tasks that request nothing.", Arguments: []framework.Argument{errorCache}},
		{Name: "preempt", Doc: "Evicts tasks for more important ones of the same queue.", Arguments: []framework.Argument{
			errorCache,
			{Name: preempt.EnableTopologyAwarePreemptionKey, Type: framework.Bool, Default: "false", Doc: "Whether victims are chosen with spread and affinity constraints in view."},
			{Name: preempt.TopologyAwarePreemptWorkerNumKey, Type: framework.Int, Default: "16", Doc: "How many nodes are tried at once then; 1 or more."},
			{Name: preempt.MinCandidateNodesPercentageKey, Type: framework.Int, Default: "10", Doc: "The least share of nodes to try, in percent."},
			{Name: preempt.MinCandidateNodesAbsoluteKey, Type: framework.Int, Default: "1", Doc: "The least number of nodes to try."},
			{Name: preempt.MaxCandidateNodesAbsoluteKey, Type: framework.Int, Default: "100", Doc: "The greatest number of nodes to try."},
		}, Validate: checks{
			preempt.TopologyAwarePreemptWorkerNumKey: integer(1, math.MaxInt),
			preempt.MinCandidateNodesPercentageKey:   percent,
			preempt.MinCandidateNodesAbsoluteKey:     notNegative,
			preempt.MaxCandidateNodesAbsoluteKey:     notNegative,
		}.validate},
		{Name: "reclaim", Doc: "Evicts tasks of queues over their share for queues under theirs.", Arguments: []framework.Argument{errorCache}},
		{Name: "shuffle", Doc: "Evicts the victims that plugins such as `rescheduling` and `tdm` name."},
	}
}

// upstreamInitParams declares the entry under `configurations` that upstream's Ascend backend of deviceshare reads as
// text.
func upstreamInitParams() ActionSpec {
	flag := func(name, def, doc string) framework.Argument {
		return framework.Argument{Name: name, Type: framework.AnyType, Default: def, Doc: doc}
	}
	return ActionSpec{
		Name: initParams,
		Doc:  "Ascend NPUs of the `" + deviceshareName + "` plugin. Values are true or false, quoted or not.",
		Arguments: []framework.Argument{
			flag(npu.SegmentEnable, "false", "Whether NPUs are cut into slices beforehand rather than on demand."),
			flag(npu.UseClusterInfoManager, "true", "Whether device states are read from the cluster info manager."),
			flag(npu.SelfMaintainAvailCard, "true", "Whether the scheduler keeps the list of free cards itself."),
		},
		Validate: checks{
			npu.SegmentEnable: textFlag, npu.UseClusterInfoManager: textFlag, npu.SelfMaintainAvailCard: textFlag,
		}.validate,
	}
}

func textFlag(value any) string {
	switch value {
	case true, false, "true", "false":
		return ""
	default:
		return "true or false"
	}
}

// upstreamMetrics declares the block `metrics` of the file.
func upstreamMetrics() ActionSpec {
	str := func(name, def, doc string) framework.Argument {
		return framework.Argument{Name: name, Type: framework.String, Default: def, Doc: doc}
	}
	return ActionSpec{
		Name: "metrics",
		Doc:  "Where the measured usage of nodes is read from. Values are text.",
		Arguments: []framework.Argument{
			{Name: "type", Type: framework.String, Enum: metricsTypes, Doc: "The kind of source; needed when the block is given."},
			str("address", "", "URL of the source; needed for Prometheus and Elasticsearch."),
			{Name: "interval", Type: framework.Duration, Default: "30s", Doc: "Time between two reads, 1s or more. Read at start."},
			str("tls.insecureSkipVerify", "false", "Whether the source's certificate is left unchecked."),
			str("elasticsearch.index", "metricbeat-*", "Index that holds the usage."),
			str("elasticsearch.username", "", "User name."),
			str("elasticsearch.password", "", "Password."),
			str("elasticsearch.hostnameFieldName", "host.hostname", "Field that holds the node's name."),
		},
		Validate: checks{"address": webURL, "interval": period, "tls.insecureSkipVerify": textFlag}.validate,
	}
}

var metricsTypes = []string{source.Metrics_Type_Elasticsearch, source.Metrics_Tpye_Prometheus, source.Metrics_Type_Prometheus_Adaptor}
