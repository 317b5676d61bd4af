// SPDX-License-Identifier: Apache-2.0

// Package gangs parses the settings of a gang in addition to its minimum: whether the gang is strict, with which gangs
// it forms a group, which of its members count, and how long it waits. The settings have Koordinator's names
// (annotations gang.scheduling.koordinator.sh/*). They are on pods, on PodGroups of scheduling.sigs.k8s.io, and on
// Volcano's PodGroups. The scheduler reads only Volcano PodGroups; the controller in pkg/controllers/gangs converts all
// other declarations of a gang to Volcano PodGroups.
//
// No invalid setting is ignored silently: an InvalidSetting describes it, and the value or effect that applies instead.
package gangs
