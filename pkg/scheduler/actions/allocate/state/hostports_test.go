// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestTasksThatShareAHostPortExcludeEachOther checks that tasks with the same host port exclude each other. A port on
// all addresses conflicts with the same port on each address.
func TestTasksThatShareAHostPortExcludeEachOther(t *testing.T) {
	port := func(port int32, address string) v1.ContainerPort {
		return v1.ContainerPort{HostPort: port, HostIP: address}
	}
	udp := port(80, "")
	udp.Protocol = v1.ProtocolUDP
	const yes, no = true, false
	tests := map[string]struct {
		ports    [][]v1.ContainerPort
		excludes [][]bool // nil if no class excludes another
		alone    []bool
	}{
		"no host port":               {[][]v1.ContainerPort{nil, {{ContainerPort: 80}}}, [][]bool{nil, nil}, []bool{no, no}},
		"one has a port":             {[][]v1.ContainerPort{{port(80, "")}, nil}, [][]bool{nil, nil}, []bool{yes, no}},
		"all addresses":              {[][]v1.ContainerPort{{port(80, "")}, {port(80, "0.0.0.0")}}, [][]bool{{no, yes}, {yes, no}}, []bool{yes, yes}},
		"other ports":                {[][]v1.ContainerPort{{port(80, "")}, {port(81, "")}}, [][]bool{nil, nil}, []bool{yes, yes}},
		"another protocol":           {[][]v1.ContainerPort{{port(80, "")}, {udp}}, [][]bool{nil, nil}, []bool{yes, yes}},
		"the second port of one":     {[][]v1.ContainerPort{{port(80, ""), port(81, "")}, {port(81, "")}}, [][]bool{{no, yes}, {yes, no}}, []bool{yes, yes}},
		"one address":                {[][]v1.ContainerPort{{port(80, "10.0.0.1")}, {port(80, "10.0.0.1")}}, [][]bool{{no, yes}, {yes, no}}, []bool{yes, yes}},
		"two addresses":              {[][]v1.ContainerPort{{port(80, "10.0.0.1")}, {port(80, "10.0.0.2")}}, [][]bool{nil, nil}, []bool{yes, yes}},
		"two addresses, and all":     {[][]v1.ContainerPort{{port(80, "10.0.0.1")}, {port(80, "10.0.0.2")}, {port(80, "")}}, [][]bool{{no, no, yes}, {no, no, yes}, {yes, yes, no}}, []bool{yes, yes, yes}},
		"two addresses, and one too": {[][]v1.ContainerPort{{port(80, "10.0.0.1")}, {port(80, "10.0.0.2")}, {port(80, "10.0.0.2")}}, [][]bool{nil, {no, no, yes}, {no, yes, no}}, []bool{yes, yes, yes}},
		"one pod has all and one":    {[][]v1.ContainerPort{{port(80, ""), port(80, "10.0.0.1")}, {port(80, "10.0.0.2")}}, [][]bool{{no, yes}, {yes, no}}, []bool{yes, yes}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := inputWithPorts(tc.ports)
			in.excludeByPorts()
			var excludes [][]bool
			var alone []bool
			for _, class := range in.Problem.Classes {
				excludes, alone = append(excludes, class.Excludes), append(alone, class.Alone)
			}
			if diff := cmp.Diff(tc.excludes, excludes); diff != "" {
				t.Errorf("which classes exclude which (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.alone, alone); diff != "" {
				t.Errorf("which classes are alone (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTasksOfManyClassesWithHostPortsAreAlone checks that no two tasks of a class with host ports may share a node,
// however many classes there are. Tasks of different classes with the same port exclude each other only up to
// MaxPackingClasses classes: more classes are merged, and merged classes may share nodes.
func TestTasksOfManyClassesWithHostPortsAreAlone(t *testing.T) {
	for classes, want := range map[int]bool{MaxPackingClasses: true, MaxPackingClasses + 1: false} {
		ports := make([][]v1.ContainerPort, classes)
		for i := range ports {
			ports[i] = []v1.ContainerPort{{HostPort: 80}}
		}
		in := inputWithPorts(ports)
		in.excludeByPorts()
		for i, class := range in.Problem.Classes {
			if !class.Alone || (class.Excludes != nil) != want {
				t.Fatalf("of %d, class %d is alone: %t, and excludes others: %t, want %t", classes, i, class.Alone, class.Excludes != nil, want)
			}
		}
	}
}

func inputWithPorts(ports [][]v1.ContainerPort) *PackingInput {
	in := &PackingInput{Problem: packing.Problem{Classes: make([]packing.TaskClass, len(ports))}}
	for _, of := range ports {
		pod := schedtest.MakePod().Name("p").Req(schedtest.Resources{"cpu": "1"}).Obj()
		pod.Spec.Containers[0].Ports = of
		in.Tasks = append(in.Tasks, []*api.TaskInfo{api.NewTaskInfo(pod)})
	}
	return in
}
