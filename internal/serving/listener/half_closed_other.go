//go:build !unix

package listener

// hasHungUp reports that a client which has closed its sending side is gone: other systems cannot tell.
func hasHungUp(uintptr) bool { return true }
