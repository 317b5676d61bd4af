// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
)

// TestUpstreamsPluginsAreListedByTheirNames: a plugin that is not listed by the name that confs use is taken for one that reads everything of a pod.
func TestUpstreamsPluginsAreListedByTheirNames(t *testing.T) {
	for name := range upstreamInputs {
		if _, known := vcframework.GetPluginBuilder(name); !known {
			t.Errorf("%s is no plugin of upstream's", name)
		}
	}
}
