// SPDX-License-Identifier: Apache-2.0

package testing

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// DeviceServer is an API server in memory that only lists and watches Device objects and one ClusterNetworkTopology.
// The zero value has no CRDs; Put and PutTopology install them.
type DeviceServer struct {
	mu      sync.Mutex
	objects map[string]*v1alpha1.Device
	// changes are all changes so far; the first has resource version 1. changed is closed when the next change is added,
	// to wake watches.
	changes []deviceChange
	changed chan struct{}
	// topology is the ClusterNetworkTopology; nil without one. It does not change once it is set.
	topology *v1alpha1.ClusterNetworkTopology
}

type deviceChange struct {
	how    watch.EventType
	device *v1alpha1.Device
}

// RestConfig returns a configuration for clients of the server.
func (s *DeviceServer) RestConfig() *rest.Config {
	return &rest.Config{Host: "http://devices.test", Transport: s, QPS: -1}
}

// Serves reports whether the CRD of Device is installed.
func (s *DeviceServer) Serves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects != nil
}

// Put creates or replaces the devices. The first call installs the CRD of Device, even without devices.
func (s *DeviceServer) Put(devices ...*v1alpha1.Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string]*v1alpha1.Device{}
	}
	for _, device := range devices {
		how := watch.Added
		if s.objects[device.Name] != nil {
			how = watch.Modified
		}
		s.objects[device.Name] = s.recordChange(how, device)
	}
}

// PutTopology stores the topology and installs the CRDs of Device and ClusterNetworkTopology. It must be called before
// the first request for the topology.
func (s *DeviceServer) PutTopology(topology *v1alpha1.ClusterNetworkTopology) {
	s.Put()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topology = topology.DeepCopy()
	s.topology.APIVersion, s.topology.Kind, s.topology.ResourceVersion = v1alpha1.SchemeGroupVersion.String(), "ClusterNetworkTopology", "1"
}

// Remove deletes the device with this name.
func (s *DeviceServer) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	device := s.objects[name]
	delete(s.objects, name)
	s.recordChange(watch.Deleted, device)
}

// recordChange adds the change to changes, wakes watches, and returns the device as stored. The caller holds the mutex.
func (s *DeviceServer) recordChange(how watch.EventType, device *v1alpha1.Device) *v1alpha1.Device {
	device = device.DeepCopy()
	device.APIVersion, device.Kind = v1alpha1.SchemeGroupVersion.String(), "Device"
	device.ResourceVersion = strconv.Itoa(len(s.changes) + 1)
	s.changes = append(s.changes, deviceChange{how, device})
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	return device
}

// RoundTrip implements http.RoundTripper.
func (s *DeviceServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resources := "/apis/" + v1alpha1.SchemeGroupVersion.String()
	if s.topology != nil && r.Method == http.MethodGet && r.URL.Path == resources+"/clusternetworktopologies" {
		return s.answerTopology(r), nil
	}
	if s.objects == nil || r.Method != http.MethodGet || r.URL.Path != resources+"/devices" {
		rejection := apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "", 0, true)
		return answer(r, http.StatusNotFound, encoded(rejection.Status())), nil
	}
	if r.URL.Query().Get("watch") != "" {
		since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		reader, writer := io.Pipe()
		go s.writeChanges(r.Context(), writer, since)
		return answer(r, http.StatusOK, reader), nil
	}
	list := &v1alpha1.DeviceList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "DeviceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(len(s.changes))},
	}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		list.Items = append(list.Items, *s.objects[name])
	}
	return answer(r, http.StatusOK, encoded(list)), nil
}

// answerTopology returns the response to a list or watch request for the topology. A watch sends no events, and lasts
// until the client ends it. The caller holds the mutex.
func (s *DeviceServer) answerTopology(r *http.Request) *http.Response {
	if r.URL.Query().Get("watch") != "" {
		reader, writer := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = writer.Close() })
		return answer(r, http.StatusOK, reader)
	}
	return answer(r, http.StatusOK, encoded(&v1alpha1.ClusterNetworkTopologyList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterNetworkTopologyList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1alpha1.ClusterNetworkTopology{*s.topology},
	}))
}

// writeChanges sends the changes after version since to a watch. Then it sends each further change, until the client
// ends the watch.
func (s *DeviceServer) writeChanges(ctx context.Context, to *io.PipeWriter, since int) {
	defer to.Close()
	for {
		s.mu.Lock()
		fresh := s.changes[since:]
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		next := s.changed
		s.mu.Unlock()
		for _, change := range fresh {
			event := metav1.WatchEvent{Type: string(change.how), Object: runtime.RawExtension{Object: change.device}}
			if err := json.NewEncoder(to).Encode(event); err != nil {
				return
			}
		}
		since += len(fresh)
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

func encoded(object any) io.ReadCloser {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return io.NopCloser(bytes.NewReader(text))
}

func answer(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: body, Request: r,
	}
}
