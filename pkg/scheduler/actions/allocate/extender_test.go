// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// extenderServer refuses the nodes for which refused returns true. A call waits until several calls have arrived, so a
// caller that makes them one after the other gets no answer.
type extenderServer struct {
	mu      sync.Mutex
	asked   map[string]int
	refused func(node string) bool
	room    sync.WaitGroup
}

func (s *extenderServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct{ Node struct{ Name string } }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.asked[request.Node.Name]++
	if len(s.asked) <= concurrent {
		s.room.Done()
	}
	s.mu.Unlock()
	s.room.Wait()
	answer := map[string]string{}
	if s.refused(request.Node.Name) {
		answer["status"] = "not this one"
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

// concurrent is the number of calls at a time.
const concurrent = 16

func TestAnExtenderIsAskedForManyNodesAtATime(t *testing.T) {
	const nodes = 300 // Upstream samples 48% of the nodes, 144 that fit. One of the best nodes does not fit, and 16 are asked at a time.
	tests := map[string]struct {
		refused func(node string) bool
		want    string
		asked   int
	}{
		"a sample of the best": {func(node string) bool { return node == "n000" }, "ns/g-0 n001", 160},
		"as many as it takes":  {func(node string) bool { return node != "n299" }, "ns/g-0 n299", nodes},
		"none takes it":        {func(string) bool { return true }, "ns/g-0 ", nodes},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := &extenderServer{asked: map[string]int{}, refused: tt.refused}
			server.room.Add(concurrent)
			listener := httptest.NewServer(server)
			defer listener.Close()
			pods, podGroup := gang("g", "1")
			w := sessiontest.ClusterSpec{Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			for i := range nodes {
				w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(fmt.Sprintf("n%03d", i)).Capacity(schedtest.Resources{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj())
			}
			ssn := ran(t, w, fmt.Sprintf(`
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: extender
    arguments:
      extender.urlPrefix: %s
      extender.httpTimeout: 10s
      extender.predicateVerb: predicate
`, listener.URL))
			if got := "ns/g-0 " + ssn.Binds()["ns/g-0"]; got != tt.want {
				t.Errorf("bound %q, want %q", got, tt.want)
			}
			if len(server.asked) != tt.asked {
				t.Errorf("%d nodes were filtered, want %d", len(server.asked), tt.asked)
			}
			for node, times := range server.asked {
				if times != 1 {
					t.Errorf("%s was filtered %d times", node, times)
				}
			}
		})
	}
}
