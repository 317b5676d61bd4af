// SPDX-License-Identifier: Apache-2.0

package app

import (
	"reflect"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
)

// TestPluginsRegisterInOurSession checks that this project's plugins register their predicates and scores with this
// project's session. They sign their results, so allocate skips a plugin that has registered nothing there. Only plugin
// evictionbackoff has a predicate in upstream's session alone, and allocate does not use it.
func TestPluginsRegisterInOurSession(t *testing.T) {
	names := []string{transaction.Name, evictionbackoff.Name}
	var conf []string
	for _, spec := range PluginSpecs() {
		if spec.Name == "bindpolicy" {
			conf = append(conf, `{name: bindpolicy, arguments: {bindpolicy.policies: [{name: a, expression: "true"}]}}`)
		} else {
			conf = append(conf, "{name: "+spec.Name+"}")
		}
		names = append(names, spec.Name)
	}
	has := func(ssn *framework.Session, plugin string, fields ...string) bool {
		for _, field := range fields {
			if reflect.ValueOf(ssn.Session).Elem().FieldByName(field).MapIndex(reflect.ValueOf(plugin)).IsValid() {
				return true
			}
		}
		return false
	}
	looked := 0
	look := action{"look", func(ssn *framework.Session) {
		for _, name := range names {
			if !ssn.Signers.Signs(name) {
				t.Errorf("plugin %s does not sign its verdicts", name)
			}
			predicate, score := has(ssn, name, "predicateFns"), has(ssn, name, "nodeOrderFns", "nodeMapFns", "bestNodeFns")
			if predicate && !ssn.Signers.HasOwnFilter(name) && name != evictionbackoff.Name {
				t.Errorf("plugin %s has a predicate in upstream's session that ours has not seen", name)
			}
			if score && !ssn.Signers.HasScore(name) {
				t.Errorf("plugin %s has a score in upstream's session that ours has not seen", name)
			}
			if predicate || score {
				looked++
			}
		}
	}}
	cfg := loaded(t, "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins: [{name: gang}, {name: predicates}, "+strings.Join(conf, ", ")+"]\n")
	cfg.Actions = []string{"look"}
	cluster := gangOf(1)
	cluster.Kube.Resources = []*metav1.APIResourceList{{GroupVersion: resourcev1.SchemeGroupVersion.String()}} // Plugin dynamicresources requests it.
	newTestScheduler(t, cluster, cfg, look).cycle()
	if looked < 3 {
		t.Errorf("%d plugins have predicates or scores, so this test looks in the wrong place", looked)
	}
}
