// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxErrors limits how many errors one message lists. The length of each error is bounded too.
const maxErrors = 4

// joinErrors joins errors, sorted by their texts. It lists at most maxErrors errors and says how many more exist. It
// returns nil for an empty list.
func joinErrors(errs []error) error {
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// clip shortens the text of an error to about 256 bytes. Errors of other packages may quote long values.
func clip(err error) error {
	const most = 256
	if text := err.Error(); len(text) > most {
		return errors.New(strings.ToValidUTF8(text[:most], "") + "...")
	}
	return err
}
