// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"

	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/metrics/source"
	npu "volcano.sh/volcano/third_party/mindcluster/common/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// initParams is the name of the entry under `configurations` that the NPU backend of deviceshare reads.
const initParams = npu.CMInitParamKey

// upstreamActions returns every action of upstream v1.14.1 (pkg/scheduler/actions), with the arguments that its source
// reads, and this project's actions preempt and reclaim, of which upstream's have other names (preempt.Upstreams).
func upstreamActions() []declaration {
	errorCache := arg(conf.EnablePredicateErrCacheKey, framework.Bool, "true",
		"Whether a node that failed one task of a kind is skipped for the others of that kind in the same session.", nil)
	return []declaration{
		{Name: "enqueue", Doc: "Admits pending jobs whose minimum has room."},
		{Name: "allocate", Doc: "Places the tasks of admitted jobs.", Arguments: []argument{errorCache}},
		{Name: "backfill", Doc: "Places tasks that request nothing.", Arguments: []argument{errorCache}},
		{Name: preempt.Name, Doc: "Makes room for gangs by evicting pods of lower priority in the same queue. See [preemption](preemption.md).", Arguments: append(evicting(),
			errorCache,
			arg(vcpreempt.EnableTopologyAwarePreemptionKey, framework.Bool, "false", "For `preempt-upstream`: whether victims are chosen with spread and affinity constraints in view.", nil),
			arg(vcpreempt.TopologyAwarePreemptWorkerNumKey, framework.Int, "16", "For `preempt-upstream`: how many nodes are tried at once then; 1 or more.", is(integer(1, math.MaxInt))),
			arg(vcpreempt.MinCandidateNodesPercentageKey, framework.Int, "10", "For `preempt-upstream`: the least share of nodes to try, in percent.", percent),
			arg(vcpreempt.MinCandidateNodesAbsoluteKey, framework.Int, "1", "For `preempt-upstream`: the least number of nodes to try.", notNegative),
			arg(vcpreempt.MaxCandidateNodesAbsoluteKey, framework.Int, "100", "For `preempt-upstream`: the greatest number of nodes to try.", notNegative),
		)},
		{Name: preempt.ReclaimName, Doc: "Makes room for gangs of queues under their share by evicting pods of queues over theirs. See [preemption](preemption.md).", Arguments: append(evicting(), errorCache)},
		{Name: preempt.Name + preempt.UpstreamSuffix, Doc: "Upstream's action `preempt`, which reads the arguments of `preempt`. It will be removed."},
		{Name: preempt.ReclaimName + preempt.UpstreamSuffix, Doc: "Upstream's action `reclaim`, which reads the arguments of `reclaim`. It will be removed."},
		{Name: "shuffle", Doc: "Evicts the victims that plugins such as `rescheduling` and `tdm` name."},
	}
}

// evicting returns the arguments of this project's actions preempt and reclaim.
func evicting() []argument {
	return []argument{
		{Argument: framework.Argument{Name: preempt.Disruption, Type: framework.String, Default: preempt.DisruptGang, Enum: []string{preempt.DisruptGang, preempt.DisruptPod}, Doc: "What is evicted of a gang that would fall below its minimum: all its pods, or as few as needed."}},
		arg(preempt.Delay, framework.Duration, "0s", "How long a pending pod waits at least before pods are evicted for its gang. Annotation `"+preempt.DelayAnnotation+"` of a PodGroup can only lengthen it.", is(durationFrom(0, "a duration"))),
	}
}

// upstreamInitParams declares the entry under `configurations` that upstream's Ascend backend of deviceshare reads as
// text.
func upstreamInitParams() declaration {
	flag := func(name, def, doc string) argument { return arg(name, framework.AnyType, def, doc, is(textFlag)) }
	return declaration{
		Name: initParams,
		Doc:  "Ascend NPUs of the `" + deviceshareName + "` plugin. Values are true or false, quoted or not.",
		Arguments: []argument{
			flag(npu.SegmentEnable, "false", "Whether NPUs are cut into slices beforehand rather than on demand."),
			flag(npu.UseClusterInfoManager, "true", "Whether device states are read from the cluster info manager."),
			flag(npu.SelfMaintainAvailCard, "true", "Whether the scheduler keeps the list of free cards itself."),
		},
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
func upstreamMetrics() declaration {
	str := func(name, def, doc string, shape shape) argument { return arg(name, framework.String, def, doc, shape) }
	return declaration{
		Name: "metrics",
		Doc:  "Where the measured usage of nodes is read from. Values are text.",
		Arguments: []argument{
			{Argument: framework.Argument{Name: "type", Type: framework.String, Enum: metricsTypes, Doc: "The kind of source; needed when the block is given."}},
			str("address", "", "URL of the source; needed for Prometheus and Elasticsearch.", is(webURL)),
			arg("interval", framework.Duration, "30s", "Time between two reads, 1s or more. Read at start.", is(period)),
			str("tls.insecureSkipVerify", "false", "Whether the source's certificate is left unchecked.", is(textFlag)),
			str("elasticsearch.index", "metricbeat-*", "Index that holds the usage.", nil),
			str("elasticsearch.username", "", "User name.", nil),
			str("elasticsearch.password", "", "Password.", nil),
			str("elasticsearch.hostnameFieldName", "host.hostname", "Field that holds the node's name.", nil),
		},
	}
}

var metricsTypes = []string{source.Metrics_Type_Elasticsearch, source.Metrics_Tpye_Prometheus, source.Metrics_Type_Prometheus_Adaptor}
