// Package kubernetes renders the Helm chart of deploy/helm and compares the manifests with the types of Kubernetes,
// with each other, and with our programs, which have to start with the arguments and the rules in a manifest.
package kubernetes
