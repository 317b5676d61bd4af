// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxErrors limits how many errors are listed in one message. The text of each error is bounded too.
const maxErrors = 4

// joinErrors joins errors in the order of their texts. It lists at most maxErrors and says how many more exist. It returns
// nil if there are none.
func joinErrors(errs []error) error {
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// clip shortens the text of an error from another package, which may quote a long value, to about 256 bytes.
func clip(err error) error {
	const most = 256
	if text := err.Error(); len(text) > most {
		return errors.New(strings.ToValidUTF8(text[:most], "") + "...")
	}
	return err
}
