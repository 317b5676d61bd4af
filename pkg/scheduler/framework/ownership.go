// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"volcano.sh/volcano/cmd/scheduler/app/options"
)

// OwnershipMark returns the text with which plugins mark the objects that they write for pods of the named scheduler.
// The text is the scheduler's name. If several schedulers share that name, the name of this scheduler's pod follows it.
// Upstream reads the same environment variables.
func OwnershipMark(scheduler string) string {
	if SharesName() {
		return scheduler + "/" + os.Getenv("SCHEDULER_POD_NAME")
	}
	return scheduler
}

// SharesName reports whether several scheduler processes work under the same scheduler name.
func SharesName() bool { return os.Getenv("MULTI_SCHEDULER_ENABLE") == "true" }

// OwnNames returns the values of schedulerName in pods that this scheduler serves.
func OwnNames() []string {
	if options.ServerOpts == nil {
		return nil
	}
	return options.ServerOpts.SchedulerNames
}

// IsOwnMark reports whether this scheduler, under one of its names, wrote the mark.
func IsOwnMark(mark string) bool {
	return mark != "" && slices.ContainsFunc(OwnNames(), func(name string) bool { return OwnershipMark(name) == mark })
}

// visitsAtOnce is the number of objects that VisitAll visits at the same time. Tenants can put marks of this scheduler on
// any number of objects, and the first session starts only after VisitAll has visited all of them.
const visitsAtOnce = 16

// VisitAll lists the objects of a kind page by page, each page within the timeout, and visits each object. It calls visit
// from several goroutines, and an error of visit does not stop it. Recoverers use it to read from the API server, because
// informers may not show a former leader's last writes yet.
func VisitAll[T any](ctx context.Context, kind string, timeout time.Duration, list pager.ListPageFunc, visit func(*T) error) error {
	var (
		mu     sync.Mutex
		errs   []error
		visits errgroup.Group
	)
	visits.SetLimit(visitsAtOnce)
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return list(ctx, options)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if item, ok := any(object).(*T); ok {
			visits.Go(func() error {
				if err := visit(item); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
				return nil
			})
		}
		return nil
	})
	_ = visits.Wait() // errs has all errors, not only the first
	if err != nil {
		err = fmt.Errorf("listing %s: %w", kind, err)
	}
	return errors.Join(append(errs, err)...)
}
