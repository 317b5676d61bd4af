// SPDX-License-Identifier: Apache-2.0

package main

// ceilings are the sizes of the types that are over the limit. What is not given is the limit.
var ceilings = map[string]size{}
