// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"encoding/json"
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

// parseError returns the error of a JSON value that could not be parsed. form describes the valid values. For a value of
// the wrong type it does not quote err, because such an error of encoding/json names Go types.
func parseError(value string, err error, form string) error {
	var mistyped *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &mistyped):
		return fmt.Errorf("invalid value %.64q, must be %s: %w", value, form, clip(err))
	case mistyped.Field == "":
		return fmt.Errorf("invalid value %.64q, must be %s", value, form)
	default:
		return fmt.Errorf("invalid value %.64q, must be %s; field %.64q has the wrong type (%.32s)", value, form, mistyped.Field, mistyped.Value)
	}
}

// clip shortens the text of an error to about 256 bytes. Errors of other packages may quote long values.
func clip(err error) error {
	const most = 256
	if text := err.Error(); len(text) > most {
		return errors.New(strings.ToValidUTF8(text[:most], "") + "...")
	}
	return err
}
