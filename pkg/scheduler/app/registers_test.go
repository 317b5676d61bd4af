// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
)

// TestPluginsSign checks that this project's plugins sign their results. Allocate skips a Signer that has registered no
// predicate or score in this project's session. The linter (forbidigo) keeps plugins from upstream's session.
func TestPluginsSign(t *testing.T) {
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
	look := action{"look", func(ssn *framework.Session) {
		for _, name := range names {
			if !ssn.Signers.Signs(name) {
				t.Errorf("plugin %s does not sign its verdicts", name)
			}
		}
	}}
	cfg := loaded(t, "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins: [{name: gang}, {name: predicates}, "+strings.Join(conf, ", ")+"]\n")
	cfg.Actions = []string{"look"}
	cluster := gangOf(1)
	cluster.Kube.Resources = []*metav1.APIResourceList{{GroupVersion: resourcev1.SchemeGroupVersion.String()}} // Plugin dynamicresources requests it.
	newTestScheduler(t, cluster, cfg, look).cycle()
}
