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
	// rememberedRejections limits the number of objects for which rejected writes are recorded.
	rememberedRejections = 1 << 14
	// rejectedFor is the time after which a rejected write is tried again, although neither the object nor the status has
	// changed. The roles or admission policies of the API server may have changed.
	rejectedFor = 10 * time.Minute
	// forbiddenTries limits how often a forbidden write is tried. With backoff, the tries take some 20 seconds. They are
	// needed because an API server that has just started has not loaded its roles yet.
	forbiddenTries = 10
)

// rejections records the writes that the API server permanently rejected. While a rejection is recorded, the same write
// to the same version of the object is not sent again.
type rejections struct {
	last *lru.Cache
	// forbidden counts, by object, how many writes in a row were forbidden.
	forbidden *lru.Cache
}

type rejection struct {
	version string
	wanted  uint64
	until   time.Time
}

func newRejections() *rejections {
	return &rejections{last: lru.New(rememberedRejections), forbidden: lru.New(rememberedRejections)}
}

// before reports whether the API server has rejected, at most rejectedFor ago, the same status for the same version of
// the object. The parameter wanted is the digest of the status.
func (r *rejections) before(key objectKey, current metav1.Object, wanted uint64) bool {
	last, ok := r.last.Get(key)
	if !ok {
		return false
	}
	rejected := last.(rejection)
	return rejected.version == current.GetResourceVersion() && rejected.wanted == wanted && time.Now().Before(rejected.until)
}

func (r *rejections) add(key objectKey, current metav1.Object, wanted uint64) {
	r.last.Add(key, rejection{current.GetResourceVersion(), wanted, time.Now().Add(rejectedFor)})
}

// forGood records the result of a write, and reports whether the API server permanently rejects the write. A forbidden
// write counts as permanently rejected once more than forbiddenTries tries in a row were forbidden.
func (r *rejections) forGood(key objectKey, err error) bool {
	if !apierrors.IsForbidden(err) {
		r.forbidden.Remove(key)
		return err != nil && apiwrite.RejectedForGood(err)
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

// givesUp reports whether a write failed because the API server permanently rejects it. If so, givesUp records and
// reports the rejection, and the caller drops the write.
func (w *Writer) givesUp(key objectKey, current object, wanted uint64, err error) bool {
	if !w.rejected.forGood(key, err) {
		return false
	}
	w.rejected.add(key, current, wanted)
	klog.Background().WithName("status").Error(err, "The API server rejected a status permanently, dropped it", "kind", key.kind, "namespace", key.namespace, "name", key.name)
	w.deps.Rejected(string(key.kind), current, "the API server rejected the status that the scheduler writes: "+brief.Part(err.Error()))
	return true
}

// unlessGivenUp returns the error of a failed write that must be retried. It returns nil if the write succeeded, or if
// the write is given up because the API server permanently rejects it.
func (w *Writer) unlessGivenUp(key objectKey, current object, wanted uint64, err error) error {
	if w.givesUp(key, current, wanted, err) {
		return nil
	}
	return err
}
