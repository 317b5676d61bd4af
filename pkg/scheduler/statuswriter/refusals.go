// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

const (
	// rememberedRefusals bounds the number of objects with recorded refusals.
	rememberedRefusals = 1 << 14
	// refusedFor is the time after which a refused write is retried although it has not changed: roles and admission
	// policies may have changed.
	refusedFor = 10 * time.Minute
	// forbiddenTries bounds the retries of a forbidden write, with backoff for some 20 seconds: an API server that has just
	// started has not loaded its roles yet.
	forbiddenTries = 10
)

// refusals records the writes that the API server refused for good. The same write to the same version of the object is
// not retried for a while, however often it is requested.
type refusals struct {
	last *lru.Cache
	// forbidden counts how often in a row a write was forbidden.
	forbidden *lru.Cache
}

type refusal struct {
	version string
	wanted  uint64
	until   time.Time
}

func newRefusals() *refusals {
	return &refusals{last: lru.New(rememberedRefusals), forbidden: lru.New(rememberedRefusals)}
}

// before reports whether the API server has refused to write the same status (by its digest wanted) to the same version of the
// object.
func (r *refusals) before(key objectKey, current metav1.Object, wanted uint64) bool {
	last, ok := r.last.Get(key)
	if !ok {
		return false
	}
	refused := last.(refusal)
	return refused.version == current.GetResourceVersion() && refused.wanted == wanted && time.Now().Before(refused.until)
}

func (r *refusals) add(key objectKey, current metav1.Object, wanted uint64) {
	r.last.Add(key, refusal{current.GetResourceVersion(), wanted, time.Now().Add(refusedFor)})
}

// forGood records the result of a write, and reports whether the API server will always refuse the write. A forbidden write
// counts as refused when more than forbiddenTries tries in a row were forbidden.
func (r *refusals) forGood(key objectKey, err error) bool {
	if !apierrors.IsForbidden(err) {
		r.forbidden.Remove(key)
		return err != nil && apiwrite.RefusedForGood(err)
	}
	tries := 1
	if before, ok := r.forbidden.Get(key); ok {
		tries += before.(int)
	}
	r.forbidden.Add(key, tries)
	return tries > forbiddenTries
}

type object interface {
	metav1.Object
	runtime.Object
}

// givesUp reports whether a failed write is to be dropped, because the API server refused it for good. It then reports the
// refusal.
func (w *Writer) givesUp(key objectKey, current object, wanted uint64, err error) bool {
	if !w.refused.forGood(key, err) {
		return false
	}
	w.refused.add(key, current, wanted)
	klog.Background().WithName("status").Error(err, "The API server rejected a status permanently, dropped it", "kind", key.kind, "namespace", key.namespace, "name", key.name)
	w.deps.Refused(string(key.kind), current, "the API server rejected the status that the scheduler writes: "+brief.Part(err.Error()))
	return true
}

// unlessGivenUp returns the error of a write that is to be retried; nil if the write succeeded or is given up.
func (w *Writer) unlessGivenUp(key objectKey, current object, wanted uint64, err error) error {
	if w.givesUp(key, current, wanted, err) {
		return nil
	}
	return err
}
