// SPDX-License-Identifier: Apache-2.0

// Package config reads volcano-scheduler.conf: it parses the file strictly, reloads it when it changes, and documents
// its format.
//
// The file has the format of upstream's vc-scheduler. Its values reach plugins with the same Go types as upstream's,
// because the same decoder creates them. Anything that upstream ignores is an error here: Parse checks every name, key,
// argument and type against a Catalogue, and reports the line and the nearest valid name. docs/configuration.md is
// generated from the same Catalogue, so the documentation cannot differ from the parser.
//
// An invalid configuration never replaces a valid one: see Loader.
//
// The package imports only two parts of this project: package framework, and helpers for texts under internal.
package config
