// Package webclient tests the clients that ask a limiter: the module for web pages, under Node and in Chromium, and the
// clients of examples/.
package webclient
