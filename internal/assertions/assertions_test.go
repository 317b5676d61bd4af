// SPDX-License-Identifier: Apache-2.0

package assertions_test

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/util/assert"

	"github.com/volcano-prebind/volcano-prebind/internal/assertions"
)

// TestUpstreamsAssertionsDoNotPanic checks that an assertion about a sum of floats does not end a scheduling cycle.
func TestUpstreamsAssertionsDoNotPanic(t *testing.T) {
	if assertions.Variable != assert.EnvPanicOnError {
		t.Errorf("upstream reads %s, not %s", assert.EnvPanicOnError, assertions.Variable)
	}
	assert.Assert(false, "the resource is not sufficient")
}
