// Package architecture tests the rules for the code as a whole: layers, owners of libraries, package comments, sizes of
// files.
package architecture
