// Package kubernetes renders the Helm chart of deploy/helm and holds the manifests to the types of Kubernetes, to each
// other, and to our programs, which have to start with the arguments and the rules that a manifest gives them.
package kubernetes
