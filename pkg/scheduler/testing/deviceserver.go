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

// DeviceServer is an API server in memory that lists and watches Device objects, and knows nothing else. The zero value is one of a cluster
// without their CRD, which Put installs.
type DeviceServer struct {
	mu      sync.Mutex
	objects map[string]*v1alpha1.Device
	// changes are all there have been: the first has version 1. changed closes with the next.
	changes []deviceChange
	changed chan struct{}
}

type deviceChange struct {
	how    watch.EventType
	device *v1alpha1.Device
}

// RestConfig is for clients of the server.
func (s *DeviceServer) RestConfig() *rest.Config {
	return &rest.Config{Host: "http://devices.test", Transport: s, QPS: -1}
}

// Serves is true if the CRD is installed.
func (s *DeviceServer) Serves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects != nil
}

// Put stores the devices, new or not.
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
		s.objects[device.Name] = s.note(how, device)
	}
}

// Remove drops the device of that name.
func (s *DeviceServer) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	device := s.objects[name]
	delete(s.objects, name)
	s.note(watch.Deleted, device)
}

// note tells those that watch. The mutex is held.
func (s *DeviceServer) note(how watch.EventType, device *v1alpha1.Device) *v1alpha1.Device {
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
	if s.objects == nil || r.Method != http.MethodGet || r.URL.Path != "/apis/"+v1alpha1.SchemeGroupVersion.String()+"/devices" {
		refusal := apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "", 0, true)
		return answer(r, http.StatusNotFound, encoded(refusal.Status())), nil
	}
	if r.URL.Query().Get("watch") != "" {
		since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		reader, writer := io.Pipe()
		go s.tell(r.Context(), writer, since)
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

// tell writes the changes since that version, until nobody reads them any more.
func (s *DeviceServer) tell(ctx context.Context, to *io.PipeWriter, since int) {
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
