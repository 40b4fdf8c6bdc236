"""For the tests of those who use the library, or write an adapter for it."""
