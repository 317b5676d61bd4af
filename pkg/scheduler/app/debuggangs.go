// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/debug"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling"
)

// Numbers of gangs in one response of /debug/gangs: gangsShown without the parameter limit, and mostGangShown at most.
const (
	gangsShown    = 100
	mostGangShown = 5000
)

// showGangs responds with the state of gangs. The query parameters namespace and podgroup select gangs. The parameter
// limit bounds the number of gangs. The parameter after (namespace/name) is the last gang of the previous response.
func showGangs(w http.ResponseWriter, r *http.Request, view *debug.View) {
	if view == nil {
		http.Error(w, "this scheduler is not the leader; ask the leader", http.StatusServiceUnavailable)
		return
	}
	params := r.URL.Query()
	query := debug.Query{Namespace: params.Get("namespace"), Name: params.Get("podgroup"), After: params.Get("after"), Limit: gangsShown}
	if text := params.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > mostGangShown {
			http.Error(w, fmt.Sprintf("limit: found %.20q, want a number from 1 to %d", text, mostGangShown), http.StatusBadRequest)
			return
		}
		query.Limit = limit
	}
	writeJSON(w, r, view.List(query))
}

// gangDefaults returns the settings of a gang without annotations. It returns false if the configuration does not name
// plugin coscheduling.
func (s *scheduler) gangDefaults() (defaults gangs.Settings, ok bool) {
	profile := s.current()
	if profile == nil {
		return defaults, false
	}
	plugin, ok := profile.Plugin(coscheduling.Name).(interface{ Defaults() gangs.Settings })
	if ok {
		defaults = plugin.Defaults()
	}
	return defaults, ok
}
