// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxErrors limits how many errors of a kind are reported. The text of each is bounded.
const maxErrors = 4

// joinErrors joins errors, in the order of their texts, up to the size of a message; nil for none.
func joinErrors(errs []error) error {
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// clip shortens an error from elsewhere, which may quote a long value, to the size of a message.
func clip(err error) error {
	const most = 256
	if text := err.Error(); len(text) > most {
		return errors.New(strings.ToValidUTF8(text[:most], "") + "...")
	}
	return err
}
