// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"os"
	"slices"
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

// IsOwnMark reports whether the text that marks an object (OwnershipMark) is that of this scheduler, under one of its
// names.
func IsOwnMark(mark string) bool {
	return mark != "" && slices.ContainsFunc(OwnNames(), func(name string) bool { return OwnershipMark(name) == mark })
}

// visitsAtOnce is the number of objects that VisitAll visits at the same time. Tenants can put the text that marks this
// scheduler's objects (OwnershipMark) on any number of objects. The first session starts only after VisitAll has
// visited all of them.
const visitsAtOnce = 16

// VisitAll lists the objects of a kind and calls visit for each, from several goroutines. An error means that the
// objects could not be listed. Recoverers use it to read from the API server, because informers may not show a former
// leader's last writes yet.
func VisitAll[T any](ctx context.Context, kind string, list pager.ListPageFunc, visit func(*T)) error {
	var visits errgroup.Group
	visits.SetLimit(visitsAtOnce)
	err := eachListed(ctx, list, func(item *T) {
		visits.Go(func() error {
			visit(item)
			return nil
		})
	})
	_ = visits.Wait() // the functions return no errors
	if err != nil {
		return fmt.Errorf("listing %s: %w", kind, err)
	}
	return nil
}

const (
	// pageSize is small because one object can have 1.5 MB.
	pageSize = 100
	// pageTimeout is the time limit of reading one page.
	pageTimeout = 15 * time.Second
)

// eachListed lists objects page by page, each page within pageTimeout, and calls visit for each object.
func eachListed[T any](ctx context.Context, list pager.ListPageFunc, visit func(*T)) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, pageTimeout)
		defer cancel()
		return list(ctx, options)
	})
	// A list that is not read in pages could be too large for pageTimeout and for the scheduler's memory.
	pages.PageSize, pages.PageBufferSize, pages.FullListIfExpired = pageSize, 1, false
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if item, ok := any(object).(*T); ok {
			visit(item)
		}
		return nil
	})
}
