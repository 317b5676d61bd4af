// SPDX-License-Identifier: Apache-2.0

// Package config reads volcano-scheduler.conf: it parses it strictly, keeps it fresh, and documents it.
//
// The file is the one upstream's vc-scheduler reads, and its values reach plugins with the same Go types,
// because the same decoder makes them. What upstream ignores is an error here: Parse holds every name, key, argument and
// type against a Catalogue, and names the line and the nearest valid name. The same Catalogue writes
// docs/configuration.md, so what is accepted and what is documented cannot part.
//
// A configuration that is not valid never replaces one that is: see Loader.
//
// Of this project the package imports framework, and helpers for texts under internal.
package config
