// SPDX-License-Identifier: Apache-2.0

// Package apiwrite has helpers for writes to the API server. They report which errors of a write are permanent and
// which of two resource versions is older, create a patch from two objects, and compute a hash that changes with the
// content.
package apiwrite
