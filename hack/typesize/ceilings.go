// SPDX-License-Identifier: Apache-2.0

package main

// ceilings are the permitted sizes of types that exceed the limit. A number that is left out means the limit.
var ceilings = map[string]size{}
