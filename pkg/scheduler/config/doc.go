// SPDX-License-Identifier: Apache-2.0

// Package config reads volcano-scheduler.conf: it parses the file strictly, reloads it when it changes, and documents
// it.
//
// The file is the one that upstream's vc-scheduler reads, and its values reach plugins with the same Go types, because
// the same decoder makes them. What upstream ignores is an error here: Parse checks every name, key, argument and type
// against a Catalogue, and reports the line and the nearest valid name. docs/configuration.md is generated from the
// same Catalogue, so the documentation cannot differ from the parser.
//
// An invalid configuration never replaces a valid one: see Loader.
//
// Of this project the package imports framework, and helpers for texts under internal.
package config
