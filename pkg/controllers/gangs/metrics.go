// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

var (
	gangsDesc = prometheus.NewDesc("volcano_gang_sources",
		"Number of gangs that are not defined by a Volcano PodGroup, by source.", []string{"source"}, nil)
	invalidDesc = prometheus.NewDesc("volcano_gang_sources_invalid",
		"Number of gangs, not defined by a Volcano PodGroup, with an invalid or conflicting setting, by source.", []string{"source"}, nil)
)

// collector counts, on each scrape, the Volcano PodGroups that the gang controller created.
type collector struct{ *controller }

// Metrics returns a collector that only describes the metrics of the gang controller, for the documentation. Its method
// Collect must not be called.
func Metrics() prometheus.Collector { return collector{} }

// Describe implements prometheus.Collector.
func (collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- gangsDesc
	descs <- invalidDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	all, invalid := map[string]int{}, map[string]int{}
	groups, _ := c.groups.List(labels.Everything()) // listing from a cache does not fail
	for _, group := range groups {
		source := group.Annotations[gangs.SourceAnnotation]
		all[source]++
		if group.Annotations[messageAnnotation] != "" {
			invalid[source]++
		}
	}
	for _, source := range []string{fromAnnotations, v1alpha1.GroupName, v1alpha1.PluginsGroupName} {
		metrics <- prometheus.MustNewConstMetric(gangsDesc, prometheus.GaugeValue, float64(all[source]), source)
		metrics <- prometheus.MustNewConstMetric(invalidDesc, prometheus.GaugeValue, float64(invalid[source]), source)
	}
}

// observe exports the metrics of the gang controller until stop is called.
func (c *controller) observe() (stop func()) {
	metrics := collector{c}
	if err := prometheus.Register(metrics); err != nil {
		return func() {} // another controller of this process already exports the metrics
	}
	return func() { prometheus.Unregister(metrics) }
}
